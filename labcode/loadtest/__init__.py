"""Load tests of a server: what is asked for when, what came back, and whether the result counts.

`exchange` one request and its answer · `open_loop` a schedule fixed beforehand · `closed_loop` users who wait for their
answers · `measured` the outcome in the tables of every other log · `omission` what a closed loop does not see.

The two loops answer different questions.  An open loop asks how the server does under a stream of arrivals that does
not care how it does; a closed one how a fixed number of users fare, who ask less when it is slow.

Needs the extra ``server`` (httpx).
"""
