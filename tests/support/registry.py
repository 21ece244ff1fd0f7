"""A real registry on loopback, images made for it, and a slow line to it."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import docker.errors

from support.required import lacking

USER, PASSWORD = "user", "secret"
#: ``PASSWORD`` in bcrypt, the only form that the registry takes.
_HTPASSWD = f"{USER}:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"
_HEADERS = {"Accept": "application/vnd.docker.distribution.manifest.v2+json"}


class Registry:
    """Debian's docker-registry with its storage in a folder; daemons reach loopback without TLS."""

    def __init__(self, folder: Path, *, private: bool = False) -> None:
        self.folder, self.private = folder, private
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        program = shutil.which("docker-registry")
        if program is None:
            lacking("docker-registry is not installed (Debian's package of that name)")
        self.folder.mkdir(exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            argv = [program, "serve", str(self._config())]
            self._process = subprocess.Popen(argv, stdout=log, stderr=log)
        for _ in range(200):
            with contextlib.suppress(OSError), contextlib.closing(self._ask("GET", "")):
                return
            assert self._process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.05)
        raise AssertionError("the registry does not answer")

    def stop(self) -> None:
        """Stop it; what was pushed stays in the folder."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """It accepts connections and says nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def delete(self, name: str, digest: str) -> None:
        """Delete an image with all its tags, as registries do with old nightly builds."""
        self._ask("DELETE", f"{name}/manifests/{digest}").close()

    def credentials(self, folder: Path) -> Path:
        """Write what ``docker login`` writes, and return the folder for DOCKER_CONFIG."""
        folder.mkdir()
        auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        (folder / "config.json").write_text(json.dumps({"auths": {self.address: {"auth": auth}}}))
        return folder

    def _config(self) -> Path:
        config: dict[str, Any] = {
            "version": "0.1",
            "storage": {
                "filesystem": {"rootdirectory": str(self.folder / "storage")},
                "delete": {"enabled": True},
            },
            "http": {"addr": self.address},
        }
        if self.private:
            (self.folder / "htpasswd").write_text(_HTPASSWD)
            config["auth"] = {"htpasswd": {"realm": "r", "path": str(self.folder / "htpasswd")}}
        path = self.folder / "config.yml"  # JSON is YAML
        path.write_text(json.dumps(config))
        return path

    def _ask(self, method: str, path: str) -> Any:
        request = urllib.request.Request(f"http://{self.address}/v2/{path}", method=method)
        for name, value in _HEADERS.items():
            request.add_header(name, value)
        if self.private:
            login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return direct.open(request, timeout=10)


@contextlib.contextmanager
def serving(folder: Path, *, private: bool = False) -> Iterator[Registry]:
    """A registry for the length of a test; skips it where there is none."""
    registry = Registry(folder, private=private)
    try:
        registry.start()
        yield registry
    finally:
        registry.stop()


class Shelf:
    """Makes images, pushes them and removes them from the daemon again."""

    def __init__(self, client: docker.DockerClient | None = None) -> None:
        self.client = client or docker.from_env()
        self._addresses: list[str] = []

    def push(self, registry: Registry, name: str, *, content: bytes = b"", base: str = "") -> str:
        """Push an image that nobody else has under ``name:tag``; return its registry digest.

        With ``base`` it is that image and a layer. The daemon has it no more.
        """
        self._addresses.append(registry.address)
        content = content or os.urandom(16)
        reference = f"{registry.address}/{name}"
        if base:
            self._build(reference, base, content)
        else:
            repository, _, tag = reference.rpartition(":")
            self.client.api.import_image_from_data(
                _tar({"content": content}), repository=repository, tag=tag
            )
        login = {"username": USER, "password": PASSWORD} if registry.private else None
        digest = ""
        for line in self.client.api.push(reference, stream=True, decode=True, auth_config=login):
            assert "error" not in line, line
            digest = line.get("aux", {}).get("Digest", digest)
        self.forget(registry.address)
        return digest

    def forget(self, address: str) -> None:
        """Remove every image of a registry from the daemon."""
        for image in self.client.api.images():
            names = [*(image["RepoTags"] or []), *(image["RepoDigests"] or [])]
            for name in names:
                if name.startswith(f"{address}/"):
                    with contextlib.suppress(docker.errors.NotFound):
                        self.client.images.remove(name, noprune=False)

    def also(self, address: str) -> None:
        """Have the images of another address removed at the end too."""
        self._addresses.append(address)

    def close(self) -> None:
        for address in set(self._addresses):
            self.forget(address)
        self.client.close()

    def _build(self, reference: str, base: str, content: bytes) -> None:
        dockerfile = f"FROM {base}\nCOPY content /content-of-a-test\n".encode()
        context = io.BytesIO(_tar({"Dockerfile": dockerfile, "content": content}))
        self.client.images.build(
            fileobj=context, custom_context=True, tag=reference, rm=True, network_mode="none"
        )


def _tar(files: dict[str, bytes]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return written.getvalue()


class SlowLine:
    """Hands on to an address, so many bytes a second and connection downwards."""

    def __init__(self, to: str, rate: int) -> None:
        host, _, port = to.rpartition(":")
        self._to, self._rate = (host, int(port)), rate
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def close(self) -> None:
        """End it, with all connections."""
        for each in [self._server, *self._open]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in [self._server, *self._open]:
            each.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the end of it all
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(self._to)
                self._open += [near, far]
                for source, sink, rate in ((near, far, 0), (far, near, self._rate)):
                    thread = threading.Thread(target=self._hand_on, args=(source, sink, rate))
                    self._threads.append(thread)
                    thread.start()

    def _hand_on(self, source: socket.socket, sink: socket.socket, rate: int) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 14):
                sink.sendall(data)
                if rate:
                    time.sleep(len(data) / rate)
            sink.shutdown(socket.SHUT_WR)
