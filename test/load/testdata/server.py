"""A server of aiohttp, uvicorn, hypercorn or gunicorn that counts requests, bodies and connections. It prints its counts after
SIGTERM: requests and connections are those that the server has seen, statuses those that it has sent."""
import asyncio
import json
import signal
import sys

framework, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
counts = {"requests": 0, "body": 0, "statuses": {}}
peers = set()


def sent(status):
    counts["statuses"][str(status)] = counts["statuses"].get(str(status), 0) + 1


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": kind + ".complete"})
            if kind == "lifespan.shutdown":
                return
    counts["requests"] += 1
    peers.add(tuple(scope["client"]))
    more = True
    while more:
        part = await receive()
        counts["body"] += len(part.get("body", b""))
        more = part.get("more_body", False)
    status = 410 if scope["path"] == "/gone" else 200
    await send({"type": "http.response.start", "status": status, "headers": [] if scope["path"] == "/parts" else [(b"content-length", b"5")]})
    for part in (b"hel", b"l") if scope["method"] != "HEAD" else ():
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"o" if scope["method"] != "HEAD" else b""})
    sent(status)


async def of_aiohttp(stop):
    from aiohttp import web

    async def answer(request):
        counts["requests"] += 1
        peers.add(request.transport.get_extra_info("peername"))
        async for part in request.content.iter_any():
            counts["body"] += len(part)
        response = web.StreamResponse(status=410 if request.path == "/gone" else 200)
        if request.path != "/parts":
            response.content_length = 5
        await response.prepare(request)
        for part in (b"hel", b"l", b"o") if request.method != "HEAD" else ():
            await response.write(part)
        await response.write_eof()
        sent(response.status)
        return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    await stop.wait()
    await runner.cleanup()


async def of_uvicorn(stop):
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(asgi, host=host, port=port, log_level="error", access_log=False))
    server.install_signal_handlers = lambda: None
    serving = asyncio.create_task(server.serve())
    await stop.wait()
    server.should_exit = True
    await serving


async def of_hypercorn(stop):
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"{host}:{port}"]
    config.errorlog = None
    config.graceful_timeout = 1
    await serve(asgi, config, shutdown_trigger=stop.wait)


def wsgi(environ, start_response):
    counts["requests"] += 1
    peers.add((environ["REMOTE_ADDR"], environ["REMOTE_PORT"]))
    counts["body"] += len(environ["wsgi.input"].read())
    path = environ["PATH_INFO"]
    status = 410 if path == "/gone" else 200
    start_response(f"{status} X", [] if path == "/parts" else [("Content-Length", "5")])
    sent(status)
    return [b"hel", b"l", b"o"] if environ["REQUEST_METHOD"] != "HEAD" else []


def of_gunicorn():
    from gunicorn.app.base import BaseApplication

    class Application(BaseApplication):
        def load_config(self):
            # One process with one thread for requests: it needs no lock to count.
            for name, value in {"bind": f"{host}:{port}", "worker_class": "gthread", "threads": 1, "keepalive": 60, "loglevel": "critical",
                                "graceful_timeout": 1, "worker_exit": lambda server, worker: output()}.items():
                self.cfg.set(name, value)

        def load(self):
            return wsgi

    Application().run()


def output():
    print(json.dumps({**counts, "connections": len(peers)}), flush=True)


async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await {"aiohttp": of_aiohttp, "uvicorn": of_uvicorn, "hypercorn": of_hypercorn}[framework](stop)


if framework == "gunicorn":
    of_gunicorn()
else:
    asyncio.run(main())
    output()
