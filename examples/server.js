// A small HTTP server for examples/instrumentation.yaml. It reads its port from the variable PORT.
const http = require('http');

http.createServer((request, response) => {
  response.setHeader('Content-Type', 'application/json');
  response.end(JSON.stringify({path: request.url, items: [1, 2, 3]}));
}).listen(Number(process.env.PORT), '127.0.0.1');
