"""`gpupool metrics`: what Prometheus reads, from a file and over HTTP."""

import http.client
import os
import re
import select
import signal
import socket
import subprocess
import threading
import unittest

from test_ps import MIB, TOOL, PsCase

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    text_string_to_metric_families = None

SAMPLE = re.compile(r'^(\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? ([0-9.]+)$')


class Metrics(PsCase):
    def samples(self, text):
        """{(name, labels): value}; no name and labels twice."""
        self.assertTrue(text.endswith("\n# EOF\n"), text)
        samples = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, labels, value = SAMPLE.match(line).groups()
                self.assertNotIn((name, labels), samples)
                samples[name, labels] = float(value)
        return samples

    def metrics(self, *args, **env):
        result = subprocess.run([TOOL, "metrics"] + list(args), env=dict(self.env, **env), capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_text(self):
        program = self.begin(LIMIT="64MiB")
        self.assertEqual(program.step("alloc %d" % (4 * MIB)), 0)
        text = self.metrics()
        samples = self.samples(text)
        labels = 'pid="%d",device="0"' % program.pid
        self.assertEqual({name: value for (name, of), value in samples.items() if of == labels}, {
            "gpupool_held_bytes": 4 * MIB, "gpupool_peak_bytes": 4 * MIB, "gpupool_used_bytes": 4 * MIB, "gpupool_cached_bytes": 0,
            "gpupool_pinned_host_bytes": 0, "gpupool_limit_bytes": 64 * MIB, "gpupool_cache_hits_total": 0,
            "gpupool_cache_misses_total": 1, "gpupool_driver_calls_total": 1, "gpupool_out_of_memory_total": 0})
        (info,) = [labels for name, labels in samples
                   if name == "gpupool_process_info" and 'pid="%d"' % program.pid in labels]
        self.assertIn('program="steps"', info)
        self.assertNotIn("/", info)

    @unittest.skipIf(text_string_to_metric_families is None, "needs python3-prometheus-client")
    def test_a_parser_of_others_takes_it(self):
        program = self.begin()
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        families = {family.name: family for family in text_string_to_metric_families(self.metrics())}
        self.assertEqual((families["gpupool_held_bytes"].type, families["gpupool_held_bytes"].unit), ("gauge", "bytes"))
        self.assertEqual(families["gpupool_cache_hits"].type, "counter")
        self.assertEqual(families["gpupool_process"].type, "info")

    def test_hostile_names(self):
        """A program's name may hold anything; a forged record may have another's number."""
        program = self.begin()
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        content = self.content()
        at = content.index(b"/steps\0")
        content[at:at + 6] = b'/s"\\\nx'
        self.pretend_to_run("%d-1" % program.pid, content)
        text = self.metrics()
        self.samples(text)
        if text_string_to_metric_families:
            list(text_string_to_metric_families(text))

    def test_file(self):
        path = os.path.join(self.folder, "gpupool.prom")
        self.metrics("-o", path)
        result = subprocess.run([TOOL, "metrics", "-o", path], env=self.env, capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("--force", result.stderr)
        self.metrics("--output=" + path, "--force")
        with open(path) as file:
            self.samples(file.read())

    def test_mistakes(self):
        for args in (["--listen"], ["--listen", "x"], ["--listen=1.2.3:9464"], ["--listen", "[::1]"], ["--listen", "0"],
                     ["--listen", "9464", "-o", "x"], ["-o"], ["extra"], ["--lisen", "9464"]):
            result = subprocess.run([TOOL, "metrics"] + args, env=self.env, capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 1), args)
            self.assertIn("gpupool metrics --help", result.stderr)

    def serve(self, host="127.0.0.1", family=socket.AF_INET):
        with socket.socket(family) as probe:
            probe.bind((host, 0))
            port = probe.getsockname()[1]
        address = "[%s]:%d" % (host, port) if family == socket.AF_INET6 else "%s:%d" % (host, port)
        server = subprocess.Popen([TOOL, "metrics", "--listen", address], env=self.env, stderr=subprocess.PIPE, text=True)
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        line = server.stderr.readline()
        if "libmicrohttpd" in line:
            self.skipTest(line)
        self.assertIn("http://%s/metrics" % address, line)
        return server, http.client.HTTPConnection(host, port, timeout=60)

    def ask(self, connection, method, path, body=None):
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type"), response.read().decode()

    def test_server(self):
        server, connection = self.serve()
        program = self.begin()
        self.assertEqual(program.step("alloc %d" % (2 * MIB)), 0)
        status, kind, text = self.ask(connection, "GET", "/metrics")
        self.assertEqual((status, kind), (200, "application/openmetrics-text; version=1.0.0; charset=utf-8"))
        self.assertEqual(self.samples(text)["gpupool_held_bytes", 'pid="%d",device="0"' % program.pid], 2 * MIB)
        self.assertEqual(self.ask(connection, "HEAD", "/metrics")[::2], (200, ""))
        self.assertEqual(self.ask(connection, "GET", "/")[0], 404)
        self.assertEqual(self.ask(connection, "POST", "/metrics", "x" * 100000)[0], 405)
        program.end()
        self.assertNotIn('pid="%d"' % program.pid, self.ask(connection, "GET", "/metrics")[2])
        connection.close()
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(), 0)

    def test_silent_clients_hold_up_nobody(self):
        """Of 500 that send half a request the oldest give way, so the one that asks properly is answered at once."""
        _, connection = self.serve()
        silent = []
        for _ in range(500):
            client = socket.create_connection((connection.host, connection.port), timeout=60)
            self.addCleanup(client.close)
            client.sendall(b"GET /met")
            silent.append(client)
        own = http.client.HTTPConnection(connection.host, connection.port, timeout=10)
        self.addCleanup(own.close)
        self.assertEqual(self.ask(own, "GET", "/metrics")[0], 200)
        for client in silent:  # and each of them is given up
            try:
                self.assertEqual(client.recv(1), b"")
            except ConnectionResetError:
                pass
        self.assertEqual(self.ask(own, "GET", "/metrics")[0], 200)

    def test_a_request_has_a_second(self):
        """Also one that comes by and by."""
        _, connection = self.serve()
        client = socket.create_connection((connection.host, connection.port), timeout=60)
        self.addCleanup(client.close)
        client.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        sent = 0
        while not select.select([client], [], [], 0.05)[0]:
            client.sendall(b"x")
            sent += 1
            self.assertLess(sent, 200)

    def test_scrapes_beside_work(self):
        """Several that ask at once, while programs allocate."""
        _, connection = self.serve()
        program = self.begin()
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        program.process.stdin.write(b"alloc 1048576\nfree\n" * 2000)
        program.process.stdin.flush()
        failures = []

        def scrape():
            own = http.client.HTTPConnection(connection.host, connection.port, timeout=60)
            for _ in range(20):
                status, _, text = self.ask(own, "GET", "/metrics")
                if status != 200 or not text.endswith("# EOF\n"):
                    failures.append((status, text))
            own.close()

        threads = [threading.Thread(target=scrape) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


if __name__ == "__main__":
    unittest.main(argv=[os.path.basename(__file__)], verbosity=2)
