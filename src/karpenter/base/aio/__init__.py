"""Small asyncio parts, one noun a file. Their time is the running loop's: a virtual loop drives them all."""
