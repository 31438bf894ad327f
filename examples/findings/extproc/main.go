// Command extproc is a processor for Envoy's filter ext_proc that lets every request pass: its cost is the way there and back.
//
//	extproc PATH    serves gRPC on a Unix socket
package main

import (
	"encoding/binary"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	l, err := net.Listen("unix", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(process)} //nolint:gosec // it ends with the trial
	server.Protocols.SetUnencryptedHTTP2(true)
	log.Fatal(server.Serve(l))
}

// unchanged is a message of gRPC: a ProcessingResponse whose field 1, the answer to the headers of a request, is empty.
var unchanged = []byte{0, 0, 0, 0, 2, 0x0a, 0}

// process answers each message of a stream. A stream is one request of Envoy, and its message the headers.
func process(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	flush := http.NewResponseController(w).Flush
	err := flush()
	for head := make([]byte, 5); err == nil; {
		if _, err = io.ReadFull(r.Body, head); err == nil {
			_, err = io.CopyN(io.Discard, r.Body, int64(binary.BigEndian.Uint32(head[1:])))
		}
		if err == nil {
			_, err = w.Write(unchanged)
		}
		if err == nil {
			err = flush()
		}
	}
	w.Header().Set("Grpc-Status", "0")
}
