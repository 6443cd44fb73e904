"""Replays a recorded schedule under changed conditions, to predict what a change would gain."""
