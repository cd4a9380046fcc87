"""What goes in and out over HTTP, one file per thing. What comes in is checked strictly: an unknown field is an error."""
