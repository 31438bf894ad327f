// A server that allocates for each request: node server.js -listen HOST:PORT [-garbage KIB]
const option = (name, otherwise) => { const at = process.argv.indexOf(name); return at < 0 ? otherwise : process.argv[at + 1]; };
const [host, port] = option("-listen", "127.0.0.1:0").split(":");
const garbage = Number(option("-garbage", 0));
const kept = new Array(64);
let requests = 0;
require("http").createServer((request, answer) => {
  requests++;
  for (let i = 0; i < garbage; i++) { // 1 KiB each
    kept[(requests + i) % kept.length] = new Array(128).fill(i);
  }
  answer.end("ok\n");
}).listen(Number(port), host);
