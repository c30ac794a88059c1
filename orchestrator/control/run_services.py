"""Services beside a run: the control socket, orders through the store, metrics over the network, and traces.

Invariant: a run does not need them. One that cannot be opened is reported, and the run goes on; at the end all of them are
closed, and socket files removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

import trio
from attrs import define, field, frozen

from harnesses.agent_spans import AgentSpan
from harnesses.diagnostics.extras import install_command
from orchestrator.control import control_server as serving
from orchestrator.control.control_api import Api, wait_of
from orchestrator.control.socket_places import is_ours, open_socket, socket_path
from orchestrator.control.store_orders import StoreOrders
from orchestrator.errors import UsageError
from orchestrator.handle import Handle, Order
from orchestrator.recording.recorder import Recorder
from orchestrator.runtime.child import Child
from orchestrator.store.file.run_lock import RunLock
from orchestrator.store.store_capabilities import Ordered, path_of, place_beside
from orchestrator.telemetry.live_tracing import TraceFollower
from orchestrator.telemetry.metric_export import push_for_ever, pusher, text_of
from orchestrator.telemetry.metric_figures import HarnessFigures
from orchestrator.telemetry.otlp_export import endpoint_of, exporter_to, sender
from orchestrator.telemetry.telemetry_meter import Meter, Program
from orchestrator.text.terminal_text import say

_EXPECTED = "expected HOST:PORT or PORT, such as 127.0.0.1:9464"
_LOOPBACK = "127.0.0.1"


@frozen
class Address:
    """A host and a port; port 0 means any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def address_of(text: str | int) -> Address:
    """Parse an address; a port alone binds to this machine.

    Raises:
        UsageError: it is not an address.
    """
    if isinstance(cast(object, text), bool) or not isinstance(cast(object, text), str | int):
        raise UsageError(f"metrics: {_EXPECTED}, was {text!r:.100}")
    host, colon, port = str(text).strip().rpartition(":")
    if colon and not host:
        raise UsageError(f"metrics: {_EXPECTED}, was {text!r:.100}; to be reached from everywhere, say 0.0.0.0 or [::]")
    bare = host.removeprefix("[").removesuffix("]")
    if ":" in bare and bare == host:
        raise UsageError(f"metrics: {_EXPECTED}, was {text!r:.100}; put an IPv6 address in brackets")
    if not (port.isascii() and port.isdecimal() and len(port) < 6 and int(port) < 65_536):
        raise UsageError(f"metrics: {_EXPECTED}, was {text!r:.100}; the port is a number up to 65535")
    return Address(bare or _LOOPBACK, int(port))


CONTROL_VARIABLE = "ORCHESTRATOR_CONTROL"
"""Environment variable, 1 or 0: default of `control` for programs that do not set it."""
_SAYS = {"": None, "1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_OURS = serving.Limits(body_bytes=1_048_576)
"""Limits for the user who runs the program: the body may hold a message."""
_ANSWERS_S = 0.5
"""Seconds at the end for sending open responses, such as the one to the order that stopped the last harness."""


def _metrics(given: Any) -> Address | object | None:
    return given if given is None or hasattr(given, "export") else address_of(given)


def _control(given: object) -> bool | None:
    if given is None:
        return control_asked_for()
    if not isinstance(given, bool):
        raise UsageError(f"control: expected True, False or None, was {given!r:.100}")
    return given


def control_asked_for() -> bool | None:
    """Return the value of the environment variable `ORCHESTRATOR_CONTROL`; None if it is not set.

    Raises:
        UsageError: it is neither 1 nor 0.
    """
    said = os.environ.get(CONTROL_VARIABLE, "").strip().lower()
    if said in _SAYS:
        return _SAYS[said]
    raise UsageError(f"{CONTROL_VARIABLE}: expected 1 or 0, got {said!r:.100}; correct it, or remove it from the environment")


def _traces(given: object) -> object:
    if isinstance(given, str):
        return endpoint_of(given)
    if given is None or isinstance(given, bool) or hasattr(given, "export"):
        return given or None
    raise UsageError(f"traces: expected the URL of a collector, a SpanExporter or True, was {given!r:.100}")


@frozen
class Wanted:
    """The services that a run is to have.

    Args:
        control: whether orders and questions are accepted: over a socket beside the store, and through a store on a server.
            None for what the environment variable says, and without one wherever it is possible.
        metrics: address to serve metrics on, HOST:PORT, or a `MetricExporter` to push them through.
        traces: where spans are sent: the URL of a collector, a `SpanExporter`, or True for OpenTelemetry's variables.

    Raises:
        UsageError: an option is invalid.
    """

    control: bool | None = field(default=None, converter=_control)
    metrics: object = field(default=None, converter=_metrics)
    traces: object = field(default=None, converter=_traces)


@define(eq=False, repr=False)
class RunServices:
    """Opens and runs the services."""

    _wanted: Wanted
    _recorder: Recorder
    _handles: Callable[[], Sequence[Handle]]
    _children: Callable[[], Sequence[Child]]
    _restart: Callable[[str, float | None], Order[Handle]]
    _can_start: Callable[[str], bool]
    _looks: list[Callable[[], Callable[[], object] | None]]
    """Of the thread that looks for changes by others; see `MailDelivery`."""
    orders: StoreOrders | None = None
    """Carries out the orders that come through the store; None if none do."""
    control_path: Path | None = None
    """Path of the control socket; None if there is none."""
    metrics_address: Address | None = None
    """Address where metrics are served over the network; None if they are not."""
    _spans: TraceFollower | None = None
    _servers: list[serving.Server] = field(factory=list[serving.Server])
    _pushed: Meter | None = None
    _lock: RunLock | None = None
    """Of a run whose store is on a server: tells others of this machine that its socket is that of a living run."""

    async def start(self, services: trio.Nursery) -> None:
        """Open the services and start them."""
        wanted = self._wanted
        if wanted.traces is not None:
            self._open_traces(services, wanted.traces)
        if isinstance(store := self._recorder.store, Ordered) and wanted.control is not False:
            self._open_orders(services, store)
        at = wanted.metrics if isinstance(wanted.metrics, Address) else None
        if wanted.metrics is not None and at is None:
            self._push_metrics(services, wanted.metrics)
        can_have_socket = serving.is_there() and place_beside(self._recorder.store) is not None
        has_socket = can_have_socket if wanted.control is None else wanted.control
        if not has_socket and at is None:
            return
        if not serving.is_there():
            say(
                "orders from a second terminal and metrics need h11, so this run goes on without them: "
                f"run `{install_command('metrics' if at is not None else 'control')}`"
            )
            return
        meter = Meter(self._recorder, Program(self._look, self._count_sent), text_of, eager=at is not None)
        services.start_soon(meter.run)
        if has_socket:
            self._open_control(services, meter)
        if at is not None:
            await self._open_metrics(services, meter, at)

    def _open_orders(self, services: trio.Nursery, store: Ordered) -> None:
        async def no_metrics() -> bytes:
            raise UsageError("metrics: expected a request over the control socket, or to the address of the metrics")

        api = Api(self._recorder.store, self._handles, no_metrics, self._restart, self._children, self._can_start)
        self.orders = StoreOrders(store, serving.Server(api.answer, _OURS, wait_of=wait_of), services)
        self._looks.append(self.orders.look)

    def _open_control(self, services: trio.Nursery, meter: Meter) -> None:
        store = self._recorder.store
        path = place_beside(store)
        if path is None:
            say(f"control: {store.location} is not a file, so there is no control socket: orders work in the program alone")
            return
        try:
            if path_of(store) is None:
                self._lock = RunLock(path, store.run)
            listening = open_socket(path, store.run)
        except (OSError, UsageError) as error:
            say(f"control: no socket beside {store.location}: {error}; the run goes on without")
            return
        self.control_path = place = socket_path(path, store.run)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        api = Api(store, self._handles, meter.text, self._restart, self._children, self._can_start)
        services.start_soon(_serve, listener, self._server(api, welcome=_is_ours, limits=_OURS, wait_of=wait_of), place)

    async def _open_metrics(self, services: trio.Nursery, meter: Meter, at: Address) -> None:
        try:
            listeners = await trio.open_tcp_listeners(at.port, host=at.host)
        except OSError as error:
            say(f"metrics: cannot listen on {at}: {error}; the run goes on without")
            return
        self.metrics_address = Address(at.host, listeners[0].socket.getsockname()[1])
        if not at.is_local:
            say(f"metrics: at http://{self.metrics_address}/metrics, open to everybody who can reach this machine")
        api = Api(None, self._handles, meter.text)
        for listener in listeners:
            services.start_soon(_serve, listener, self._server(api))

    def _push_metrics(self, services: trio.Nursery, exporter: Any) -> None:
        meter = Meter(
            self._recorder, Program(self._look, self._count_sent), pusher(exporter, self._recorder.store.run), eager=True
        )
        services.start_soon(meter.run)
        services.start_soon(push_for_ever, meter)
        self._pushed = meter

    def _open_traces(self, services: trio.Nursery, given: object) -> None:
        store = self._recorder.store
        try:
            ours = isinstance(given, bool | str)
            exporter: Any = exporter_to(given if isinstance(given, str) else None) if ours else given
            send = sender(exporter, store.run)
        except UsageError as error:
            if error.__cause__ is None:
                raise
            say(f"{error}; the run goes on without")
            return
        self._spans = TraceFollower(store, send, exporter.shutdown if ours else lambda: None)
        services.start_soon(self._spans.run, self._recorder)

    @property
    def take_span(self) -> Callable[[str, int, int, AgentSpan], None] | None:
        """Takes the spans of agents; None without traces."""
        return None if self._spans is None else self._spans.take

    async def finish(self, seconds: float) -> None:
        """Wait until the last responses, metrics and spans are sent, at most `seconds`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wait_for_answer)
            if self._pushed is not None:
                nursery.start_soon(_push_last, self._pushed, seconds)
            if self._spans is not None:
                nursery.start_soon(self._spans.finish, seconds)
        if self._lock is not None:
            self._lock.release()

    async def _wait_for_answer(self) -> None:
        with trio.move_on_after(_ANSWERS_S):
            for one in (*self._servers, *(() if self.orders is None else (self.orders,))):
                await one.wait_answered()

    def _server(self, api: Api, **options: Any) -> serving.Server:
        server = serving.Server(api.answer, **options)
        self._servers.append(server)
        return server

    def _count_sent(self) -> tuple[int, int]:
        return (0, 0) if self._spans is None else (self._spans.sent, self._spans.dropped)

    def _look(self) -> list[HarnessFigures]:
        return [
            HarnessFigures(one.name, one.status.value, one.durable_step, one.live, gauges=one.gauges)
            for one in self._handles()
        ]


async def _serve(listener: trio.SocketListener, server: serving.Server, path: Path | None = None) -> None:
    """Serve until cancelled; then close the socket and remove its file."""
    try:
        await server.serve(listener)
    finally:
        listener.socket.close()
        if path is not None:
            _remove(path)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _push_last(meter: Meter, seconds: float) -> None:
    with trio.move_on_after(seconds), suppress(UsageError):
        await meter.text()


def _is_ours(stream: trio.SocketStream) -> bool:
    return is_ours(stream.socket)
