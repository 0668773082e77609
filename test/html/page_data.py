"""Reads the data of a page (doc/html.md), without a browser."""

import base64
import json
import re
import zlib

PAYLOAD = re.compile(r'<script type="application/octet-stream;base64" id="payload">([^<]*)</script>')


class PageData:
    def __init__(self, html):
        """html: the text of a page. Numbers of the header stay as they are written."""
        self.text = PAYLOAD.search(html).group(1)
        data = zlib.decompress(base64.b64decode(self.text, validate=True))
        assert data[:8] == b"GPPAGE1\n", data[:8]
        end = 12 + int.from_bytes(data[8:12], "little")
        header = data[12:end].decode("utf-8")
        self.header = json.loads(header)
        self.exact = json.loads(header, parse_int=str, parse_float=str)
        self.files = []
        for entry in self.header["files"]:
            columns = {}
            for column in entry["columns"]:
                columns[column["name"]] = read(data[end:end + column["bytes"]], column)
                end += column["bytes"]
            self.files.append(File(entry, columns))
        assert end == len(data), (end, len(data))


class File:
    def __init__(self, entry, columns):
        self.entry, self.columns = entry, columns

    def __getitem__(self, name):
        return self.columns[name]

    def rows(self, table):
        """The columns TABLE.x as a dictionary each row."""
        names = [name for name in self.columns if name.startswith(table + ".")]
        return [dict(zip((name.split(".")[1] for name in names), row)) for row in zip(*(self.columns[name] for name in names))]

    def string(self, index):
        return self.entry["strings"][index]


def read(data, column):
    if column["encoding"] == "byte":
        numbers = list(data)
    else:
        numbers, value, shift, last = [], 0, 0, 0
        for byte in data:
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte >= 0x80:
                continue
            if column["encoding"] == "delta":
                last += (value >> 1) ^ -(value & 1)
                value = last
            numbers.append(value)
            value = shift = 0
    assert len(numbers) == column["count"], column
    return numbers
