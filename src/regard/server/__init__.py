"""Run folders served over HTTP: batch queues before the models, routes, access checks, metrics, a web page."""
