"""Arrow Flight's side of wire.py: flight_server.py ROWS COLUMNS. Serves a table of RoPE, in batches of as many bytes as the ticket
says, all made beforehand; ends with its standard input."""

import sys

import numpy as np
import pyarrow
import pyarrow.flight


class Server(pyarrow.flight.FlightServerBase):
    def __init__(self, table):
        super().__init__("grpc://127.0.0.1:0")
        self._schema = pyarrow.schema([("table", pyarrow.float32())])
        self._table, self._batches = table, {}

    def do_get(self, context, ticket):
        size = int(ticket.ticket) // 4
        if size not in self._batches:
            self._batches[size] = [pyarrow.record_batch([pyarrow.array(self._table[at:at + size])], schema=self._schema)
                                   for at in range(0, len(self._table), size)]
        reader = pyarrow.RecordBatchReader.from_batches(self._schema, self._batches[size])
        return pyarrow.flight.RecordBatchStream(reader)


def main(rows, columns):
    pairs = columns // 2
    angles = np.multiply.outer(np.arange(rows), 10000.0 ** (-np.arange(pairs) / pairs))
    server = Server(np.concatenate([np.cos(angles), np.sin(angles)], -1).astype(np.float32).reshape(-1))
    print(f"127.0.0.1:{server.port}", flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
