"""The scheduler behind HTTP: a real server whose answers come from the mini model.

`options` the simulator's options and a server's limits · `backend` model, tokenizer, chat format · `engine` drives the
scheduler in an event loop, the model in a thread · `protocol` bodies of requests and answers, in OpenAI's shapes ·
`answer` an answer on its way to a client that may be slow or gone · `app` the routes · `metrics` for Prometheus ·
`serve` a process with signals and an end.

Needs the extra ``server`` (fastapi, uvicorn, prometheus-client).
"""
