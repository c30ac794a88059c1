"""The venue's WebSocket: bars that are forming, in the words of Binance, Kraken and OKX, and what can go wrong with them.

Its prices are wrong on purpose (all 1): whatever takes one from here shows it. Source of the framing: RFC 6455, 5.2.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import define, field

from .market import INTERVALS_MS, MINUTE_MS, SYMBOLS

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _CLOSE, _PING, _PONG = 1, 8, 9, 10
_PACE_MS = 50

Write = Callable[[bytes], None]
Topic = tuple[str, str]
"""A symbol and a timeframe."""


def handshake(headers: Mapping[str, str]) -> bytes:
    """Return the answer to a request for a WebSocket."""
    accept = base64.b64encode(hashlib.sha1(headers["sec-websocket-key"].encode() + _MAGIC).digest()).decode()
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\n\r\n"
    ).encode()


def frame(kind: int, payload: bytes) -> bytes:
    """Return a message in one frame, as a server sends it."""
    size = len(payload)
    head = bytes([0x80 | kind])
    if size < 126:
        return head + bytes([size]) + payload
    return head + (b"\x7e" + struct.pack("!H", size) if size < 65536 else b"\x7f" + struct.pack("!Q", size)) + payload


def unframe(buffer: bytes) -> tuple[int, bytes, bytes] | None:
    """Return the kind and the payload of the first frame of a client, and what follows; None if it is not whole yet."""
    if len(buffer) < 6:
        return None
    size, at = buffer[1] & 0x7F, 2
    if size == 126:
        size, at = struct.unpack("!H", buffer[2:4])[0], 4
    elif size == 127:
        return None
    if len(buffer) < at + 4 + size:
        return None
    mask, payload = buffer[at : at + 4], buffer[at + 4 : at + 4 + size]
    return buffer[0] & 0xF, bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload)), buffer[at + 4 + size :]


@define(eq=False)
class Listener:
    """One connection."""

    path: str
    write: Write
    close: Callable[[], None]
    topics: dict[Topic, int] = field(factory=dict[Topic, int])
    """What it has asked for, with the time of the last word about each."""
    buffer: bytes = b""


class Streams:
    """All connections of the venue, and what goes wrong with them.

    `faults`: `refuse` connections; `silent`: no bars; `deaf`: no bars and no answer to anything; `pongless`: no answer to
    pings; `stuck`: bars never change.
    """

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.faults: set[str] = set()
        self.connections = 0
        self.stuck_ms: int | None = None

    def add(self, path: str, write: Write, close: Callable[[], None]) -> Listener:
        """Take in a connection."""
        self.connections += 1
        listener = Listener(path, write, close)
        self.listeners.append(listener)
        return listener

    def discard(self, listener: Listener) -> None:
        """Let go of a connection."""
        if listener in self.listeners:
            self.listeners.remove(listener)

    def hear(self, listener: Listener, data: bytes) -> None:
        """Do what a client says."""
        listener.buffer += data
        while (found := unframe(listener.buffer)) is not None:
            kind, payload, listener.buffer = found
            if "deaf" in self.faults:
                continue
            if kind == _CLOSE:
                listener.write(frame(_CLOSE, payload))
                listener.close()
            elif kind == _PING and "pongless" not in self.faults:
                listener.write(frame(_PONG, payload))
            elif kind == _TEXT:
                self._obey(listener, payload.decode())

    def _obey(self, listener: Listener, text: str) -> None:
        if text == "ping":
            listener.write(frame(_TEXT, b"pong"))
            return
        asked: Any = json.loads(text)
        if asked.get("method") == "ping":
            listener.write(frame(_TEXT, json.dumps({"method": "pong", "req_id": asked.get("req_id")}).encode()))
            return
        for topic in _topics(asked):
            listener.topics[topic] = 0
        if asked.get("method") == "SUBSCRIBE":
            listener.write(frame(_TEXT, json.dumps({"result": None, "id": asked["id"]}).encode()))

    def say(self, text: str) -> None:
        """Say something to all."""
        for listener in self.listeners:
            listener.write(frame(_TEXT, text.encode()))

    def advance(self, now_ms: int) -> None:
        """Tell all listeners of their bars."""
        told_ms = now_ms if self.stuck_ms is None else self.stuck_ms
        for listener in [] if self.faults & {"silent", "deaf"} else self.listeners:
            for topic, last_ms in listener.topics.items():
                if now_ms - last_ms >= _PACE_MS:
                    listener.topics[topic] = now_ms
                    listener.write(frame(_TEXT, words(listener.path, topic, told_ms).encode()))

    def order(self, options: Mapping[str, str], body: bytes, now_ms: int) -> object:
        """Do what a test asks for."""
        match options.get("do"):
            case "fault":
                self.faults.add(options["name"])
                self.stuck_ms = now_ms if "stuck" in self.faults else None
            case "calm":
                self.faults.clear()
                self.stuck_ms = None
            case "drop":
                for listener in list(self.listeners):
                    listener.close()
            case "close":
                for listener in list(self.listeners):
                    listener.write(frame(_CLOSE, struct.pack("!H", 1001)))
            case "say":
                for _ in range(int(options.get("times", "1"))):
                    self.say(json.loads(body))
            case "flood":
                for number in range(int(options["times"])):
                    self.say(json.loads(body).replace("%d", str(number)))
            case _:
                pass
        return {
            "listeners": len(self.listeners),
            "connections": self.connections,
            "topics": [len(listener.topics) for listener in self.listeners],
        }


def words(path: str, topic: Topic, now_ms: int) -> str:
    """Return what the venue says about the bar of a moment, in the dialect of a path."""
    name, timeframe = topic
    length_ms = INTERVALS_MS[timeframe]
    start_ms = now_ms // length_ms * length_ms
    symbol = SYMBOLS[name]
    if path.startswith("/stream"):
        prices = dict.fromkeys("ohlc", "1.00000000")
        kline = {"t": start_ms, "T": start_ms + length_ms - 1, "s": name, "i": timeframe, "v": "1.00000000", "x": False}
        return json.dumps({"e": "kline", "E": now_ms, "s": name, "k": kline | prices})
    if path.startswith("/v2"):
        begin = datetime.fromtimestamp(start_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000000000Z")
        prices = dict.fromkeys(("open", "high", "low", "close", "volume"), 1.0)
        row = {"symbol": f"{symbol.base}/{symbol.quote}", "interval_begin": begin, "interval": length_ms // MINUTE_MS}
        return json.dumps({"channel": "ohlc", "type": "update", "data": [row | prices]})
    arg = {"channel": f"candle{timeframe}", "instId": f"{symbol.base}-{symbol.quote}"}
    return json.dumps({"arg": arg, "data": [[str(start_ms), *["1"] * 7, "0"]]})


def _topics(asked: Any) -> list[Topic]:
    """Return what a client wants to hear, in any dialect."""
    if asked.get("method") == "SUBSCRIBE":
        parts = [one.split("@kline_") for one in asked["params"]]
        return [(name.upper(), timeframe) for name, timeframe in parts]
    if asked.get("method") == "subscribe":
        lengths = {length_ms // MINUTE_MS: name for name, length_ms in INTERVALS_MS.items()}
        return [(one.replace("/", ""), lengths[asked["params"]["interval"]]) for one in asked["params"]["symbol"]]
    return [(one["instId"].replace("-", ""), one["channel"].removeprefix("candle")) for one in asked.get("args", ())]
