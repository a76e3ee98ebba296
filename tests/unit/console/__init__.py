"""The console: documents, server, record and page."""
