"""A small FastAPI server for examples/findings/opentelemetry-python.yaml."""
import sys

import uvicorn
from fastapi import FastAPI

app = FastAPI()


@app.get("/")
async def items():
    return {"path": "/", "items": [1, 2, 3]}


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)
