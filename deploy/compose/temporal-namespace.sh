#!/bin/sh
# The namespace that the workers use. Fails while the cluster does not serve yet; compose tries again.
set -eu
temporal operator cluster health
temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention 72h
