"""Prometheus metrics of the service."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
TOKENS = (64, 256, 1024, 2048, 4096, 8192, 16384, 65536, 262144)


class Metrics:
    """Counters, gauges and histograms, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        given: Any = {"registry": self.registry, "namespace": "masquerade"}
        self.requests = Counter(
            "requests", "Requests, by route, method and status", ["route", "method", "status"], **given
        )
        self.latency = Histogram("request_seconds", "Time of a request", ["route"], buckets=SECONDS, **given)
        self.batch = Histogram("batch_size", "Questions or texts that were run together", buckets=SIZES, **given)
        self.batch_tokens = Histogram("batch_tokens", "Tokens that were run together", buckets=TOKENS, **given)
        self.queue_tokens = Gauge("queue_tokens", "Tokens that wait or are being run", **given)
        self.queue_jobs = Gauge("queue_jobs", "Questions and texts that wait", **given)
        self.windows = Counter(
            "windows", "Windows of passages, by whether they had been read before", ["cache"], **given
        )
        self.dropped = Counter("dropped", "Requests whose client had gone", **given)
        self.refused = Counter("refused", "Requests refused because the queue was full", **given)
        self.streams = Gauge("streams", "Texts that are being generated", **given)
        for cache in ("hit", "miss"):
            self.windows.labels(cache)  # shown as 0 before the first

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)
