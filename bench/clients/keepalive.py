"""Sends small requests one after another on one TLS connection: the load for counting instructions."""

import json
import sys

from idle import ask, connect, unverified


def main(port, requests, path):
    with connect(port, unverified()) as sock:
        for _ in range(requests):
            ask(sock, path)
    print(json.dumps({"requests": requests}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
