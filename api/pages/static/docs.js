// Starts Swagger UI. A session's requests name its CSRF token, as those of the other pages do.
"use strict";

const told = (name) => document.querySelector(`meta[name="${name}"]`).content;
const csrf = told("csrf-token");

SwaggerUIBundle({
  url: `${told("root-path")}/openapi.json`,
  dom_id: "#swagger-ui",
  deepLinking: true,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: false,
  validatorUrl: null,
  syntaxHighlight: { activated: true },
  requestInterceptor: (request) => {
    if (csrf && !request.headers.Authorization && new URL(request.url, location.href).origin === location.origin) {
      request.headers["X-CSRF-Token"] = csrf;
    }
    return request;
  },
});
