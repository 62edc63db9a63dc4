"""The log over HTTP: the same verbs with the same types, for threads and for asyncio."""
