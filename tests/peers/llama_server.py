"""llama.cpp's own HTTP server in this process, from the xllamacpp package.

    FOLDER/venv/bin/python tests/peers/llama_server.py FOLDER/model.gguf PORT [--template FILE] [--context N]
                                                       [--output N] [--endless]

It answers 503 while it loads, prints one line when it is ready, and ends by a signal. Answers are the likeliest words, the
same each time; the context is divided over two slots. `--output` limits the tokens of an answer whose request sets no
limit; with `--endless` an answer ends only by a limit.
"""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

import xllamacpp

SLOTS = 2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("port", type=int)
    parser.add_argument("--template", type=Path)
    parser.add_argument("--context", type=int, default=4096, help="tokens, of all slots together")
    parser.add_argument("--output", type=int, default=160, help="tokens of an answer")
    parser.add_argument("--endless", action="store_true")
    options = parser.parse_args()

    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.n_ctx = options.context
    params.n_parallel = SLOTS
    params.n_predict = options.output
    params.cpuparams.n_threads = 1  # more of them wait for each other where the machine has other work
    params.warmup = False
    params.endpoint_slots = True
    params.endpoint_metrics = True
    params.sampling.temp = 0.0
    params.sampling.ignore_eos = options.endless
    params.use_jinja = True
    if options.template is not None:
        params.chat_template = options.template.read_text()
    os.environ["LLAMA_SERVER_SLOTS_DEBUG"] = "1"  # its slots then tell the prompt they were given
    server = xllamacpp.Server(params)
    print(f"listening at {server.listening_address}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
