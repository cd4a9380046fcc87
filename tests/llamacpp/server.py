"""llama.cpp's HTTP server in a process of its own: a crash of native code does not take the tests with it.

``python -m tests.llamacpp.server MODEL`` prints its address as the first line and runs until its standard input ends, so it
never outlives the process that started it.
"""

from __future__ import annotations

import sys


def main() -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.ui = False
    params.n_ctx = 8192
    params.n_parallel = 2
    params.cpuparams.n_threads = 2
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
