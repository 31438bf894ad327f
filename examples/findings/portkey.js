// Portkey reads the provider's address from headers of each request. Requests without a gateway have none, so that they are added here.
const http = require('http');

const upstream = process.argv.find((word) => word.startsWith('--upstream=')).slice('--upstream='.length);
const added = ['x-portkey-provider', 'openai', 'x-portkey-custom-host', `${upstream}/v1`];

const emit = http.Server.prototype.emit;
http.Server.prototype.emit = function (event, request, ...rest) {
  if (event === 'request') {
    this.keepAliveTimeout = 3600e3; // connections stay open: Node closes idle ones after 5 s
    request.rawHeaders.push(...added);
    request.headers[added[0]] = added[1];
    request.headers[added[2]] = added[3];
  }
  return emit.call(this, event, request, ...rest);
};
