"""Object stores: ``minio`` speaks to any S3 server, ``memory`` is the fake that passes the same contract tests."""
