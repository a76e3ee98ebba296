"""The four ways to say a change: JSON patch, merge patch, strategic merge patch, server-side apply."""
