"""REST, one file per thing. ``ROUTERS`` holds them all; each is mounted under ``/v1``."""

from fastapi import APIRouter

from api.routes import account

ROUTERS: tuple[APIRouter, ...] = (account.router,)
