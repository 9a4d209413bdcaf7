"""The process of the service: it listens, loads its models, and stops when the requests under way have ended."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from types import FrameType

import uvicorn

from masquerade.errors import MasqueradeError
from masquerade.serve.app import create_app
from masquerade.serve.service import Service

TOLD = 2.0  # seconds for which /readyz tells that the models could not be loaded, before the process ends


class Server(uvicorn.Server):
    """A server for one service."""

    def __init__(self, service: Service, host: str = "127.0.0.1", port: int = 0) -> None:
        self.service, self.failed = service, False
        self._signalled = False
        self._stopping: asyncio.Task[None] | None = None
        super().__init__(
            uvicorn.Config(
                create_app(service), host=host, port=port, log_config=None, access_log=False, server_header=False,
                date_header=False, timeout_keep_alive=15, lifespan="on", ws="none",
                timeout_graceful_shutdown=int(service.limits.seconds),
            )
        )  # fmt: skip

    @property
    def address(self) -> str:
        """Where the service listens."""
        sockets = [each for server in self.servers for each in server.sockets]
        host, port = sockets[0].getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def serve_until_stopped(self) -> int:
        """Serve until a signal comes. Returns 1 if the models could not be loaded."""
        try:
            self.run()
        except SystemExit as error:  # the address is taken
            raise MasqueradeError(
                f"The service cannot listen on {self.config.host}:{self.config.port}; choose another --port."
            ) from error
        return 1 if self.failed else 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and then wait for the models beside the requests."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started:
            print(f"masquerade: listening on {self.address}", file=sys.stderr, flush=True)
            self._waiting = asyncio.create_task(self._wait_for_models())

    async def _wait_for_models(self) -> None:
        await self.service.loaded()
        if self.service.status == "failed":
            self.failed = True
            print(f"masquerade: {self.service.detail}", file=sys.stderr, flush=True)
            await asyncio.sleep(TOLD)
            self.should_exit = True
        elif self.service.status == "ready":
            print(f"masquerade: ready; the page is at {self.address}/", file=sys.stderr, flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A first signal lets requests under way finish and refuses new ones; a second one ends at once."""
        if self._signalled or sig not in (signal.SIGTERM, signal.SIGINT):
            self.force_exit = self._signalled
            super().handle_exit(sig, frame)
            return
        self._signalled = True
        self.service.begin_stop()
        self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._stopping = self._stopping or asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        end = self._loop.time() + self.service.limits.seconds
        while self.service.requests and self._loop.time() < end:
            await asyncio.sleep(0.05)
        self.should_exit = True
