"""GraphQL: the memory of the authenticated user, and their preference. One POST, one operation, bounded."""

from api.graphql.http import install
from api.graphql.schema import schema

__all__ = ["install", "schema"]
