"""``codec-server``: payloads in clear for the Temporal Web UI and the command ``temporal``."""

from __future__ import annotations

import asyncio

import typer

from starter.cli.state import state_of


def register(app: typer.Typer) -> None:
    app.command("codec-server")(codec_server)


def codec_server(ctx: typer.Context) -> None:
    """Decrypt payloads for the Temporal Web UI and the command `temporal`.

    At AFTERTURN_CODEC_ADDRESS, with AFTERTURN_PAYLOAD_KEYS, until told to stop. Only pages of AFTERTURN_TEMPORAL_UI_URL may ask;
    beyond this machine a token of AFTERTURN_OIDC_ISSUER is needed.
    """
    from api.codec_server import run_codec_server

    state = state_of(ctx)
    settings = state.settings()
    state.logs(settings, level="info")
    asyncio.run(run_codec_server(settings))
