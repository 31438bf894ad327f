// A provider of completions for examples/findings/llm-gateway.yaml: it reads the request, and gives everyone the same answer.
const http = require('http');

const answer = JSON.stringify({
  id: 'chatcmpl-1', object: 'chat.completion', created: 1700000000, model: 'model',
  choices: [{index: 0, message: {role: 'assistant', content: 'word '.repeat(150)}, finish_reason: 'stop'}],
  usage: {prompt_tokens: 12, completion_tokens: 150, total_tokens: 162},
});

http.createServer((request, response) => {
  request.resume().on('end', () => {
    response.writeHead(200, {'Content-Type': 'application/json', 'Content-Length': answer.length});
    response.end(answer);
  });
}).listen(Number(process.argv[2]), '127.0.0.1');
