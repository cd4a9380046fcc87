"""Memory over HTTP: REST under ``/v1``, GraphQL, the settings page and the admin page. ``create_app`` puts it together."""
