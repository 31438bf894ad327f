// A server of Node.js that counts requests, bytes and connections. It prints a line with its
// address when it listens, and its counts after SIGTERM, once every connection has ended.
'use strict'
const [, , protocol, host, each] = process.argv
const counts = { requests: 0, answered: 0, body: 0, connections: 0, in: 0, out: 0 }

const paths = {
  '/hints': (q, a) => { // interim response, chunks and a trailer
    a.writeEarlyHints({ link: '</x>; rel=preload' })
    a.writeHead(200, { trailer: 'x-sum' })
    a.write('hel')
    a.addTrailers({ 'x-sum': '1' })
    a.end('lo')
  },
  '/upload': (q, a) => {
    q.on('data', b => { counts.body += b.length })
    q.on('end', () => a.end('thanks'))
  },
  '/large': (q, a) => {
    a.writeHead(200, { 'content-length': 100 << 20 })
    let left = 100
    const more = () => { while (left > 0) { left--; if (!a.write(Buffer.alloc(1 << 20))) { a.once('drain', more); return } } a.end() }
    more()
  },
  '/reset': q => q.socket.resetAndDestroy(),
  '/close': q => q.socket.destroy(),
  '/truncated': (q, a) => { a.writeHead(200, { 'content-length': 10 }); a.write('hello', () => q.socket.destroy()) },
  '/broken-chunk': (q, a) => { a.write('hello', () => q.socket.destroy()) },
}

const finish = (a) => { if (a) a.on('finish', () => counts.answered++) }
let server
if (protocol === 'http1') {
  server = require('http').createServer((q, a) => {
    counts.requests++
    finish(a)
    const path = paths[q.url]
    path ? path(q, a) : a.end('hello')
  })
  if (each > 0) server.maxRequestsPerSocket = Number(each)
} else {
  server = require('http2').createServer()
  server.on('session', session => {
    let streams = 0
    session.on('error', () => {})
    session.on('stream', (stream, headers) => {
      counts.requests++
      stream.on('error', () => {})
      stream.on('data', b => { counts.body += b.length })
      stream.on('end', () => {
        if (stream.destroyed) return
        stream.respond({ ':status': 200 }, { waitForTrailers: headers[':path'] === '/trailers' })
        stream.on('wantTrailers', () => stream.sendTrailers({ 'x-sum': '1' }))
        stream.end('hello', () => counts.answered++)
      })
      if (++streams === Number(each)) session.close()
    })
  })
}
server.on('connection', socket => {
  counts.connections++
  socket.on('close', () => { counts.in += socket.bytesRead; counts.out += socket.bytesWritten })
})
server.listen(8080, host)
process.on('SIGTERM', () => server.close(() => console.log(JSON.stringify(counts))))
