// Command adder is the program of the study "to sidecar or not": a server, and a sidecar with the function that it calls.
//
//	go build -o bin/adder ./examples/adder
//	tare run examples/to-sidecar-or-not.yaml
//
// The function adds two numbers. It also takes a payload, because the study did not test large ones.
// The checksum of the payload verifies its arrival.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/tare-mesh/tare/internal/base/rpc"
)

// addends are the arguments of the function. In JSON the payload is base64.
type addends struct {
	First   int64  `json:"first"`
	Second  int64  `json:"second"`
	Payload []byte `json:"payload"`
}

// sum is the result of the function.
type sum struct {
	Result   int64  `json:"result"`
	Checksum uint32 `json:"checksum"`
}

func add(in addends) sum { return sum{in.First + in.Second, crc32.ChecksumIEEE(in.Payload)} }

const (
	method = "/tare.v1.Adder/Add"
	// maxBody is the max size of a request in bytes: a payload of 64 MiB in base64.
	maxBody = 96 << 20
)

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "127.0.0.1:8080", "`address` to listen on")
	sidecar := flag.String("sidecar", "", "`address` of the sidecar; without one this process is the sidecar")
	other := flag.String("other", "", "`address` of a sidecar in another language, for the route /adder-with-other")
	flag.Parse()
	if *sidecar == "" {
		if err := serveSidecar(*listen); err != nil {
			log.Fatal(err)
		}
		return
	}
	log.Fatal(http.ListenAndServe(*listen, newServer(*sidecar, *other))) //nolint:gosec // a server on loopback, which ends with the trial
}

// socketOf is the path of the sidecar's Unix socket. Its port makes it unique.
func socketOf(address string) string {
	_, port, _ := strings.Cut(address, ":")
	return filepath.Join(os.TempDir(), "adder-"+port+".sock")
}

// serveSidecar serves the function over REST and gRPC, on an address and on a Unix socket.
func serveSidecar(address string) error {
	failed, stop := make(chan error, 2), make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	grpc := rpc.NewServer(maxBody, rpc.Service{
		Name:     "tare.v1.Adder",
		Handlers: map[string]rpc.Handler{"Add": addGRPC},
	})
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			grpc.ServeHTTP(w, r)
			return
		}
		addREST(w, r)
	})}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	_ = os.Remove(socketOf(address)) // of an earlier run
	for network, at := range map[string]string{"tcp": address, "unix": socketOf(address)} {
		l, err := net.Listen(network, at)
		if err != nil {
			return err
		}
		go func() { failed <- server.Serve(l) }()
	}
	select {
	case err := <-failed:
		return err
	case <-stop:
		return server.Close() // removes the socket
	}
}

func addREST(w http.ResponseWriter, r *http.Request) {
	var in addends
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(add(in))
}

func addGRPC(_ context.Context, _ http.Header, request []byte) (rpc.Message, error) {
	var in addends
	fields, err := rpc.Fields(request)
	for _, f := range fields {
		switch f.Number {
		case 1:
			in.First = int64(f.Int)
		case 2:
			in.Second = int64(f.Int)
		case 3:
			in.Payload = f.Bytes
		}
	}
	out := add(in)
	return rpc.Message{rpc.AppendInt(rpc.AppendInt(nil, 1, uint64(out.Result)), 2, uint64(out.Checksum))}, err
}

// newServer returns the server. Each route calls the function over another transport.
func newServer(sidecar, other string) http.Handler {
	routes := http.NewServeMux()
	var requests atomic.Int64
	for path, call := range map[string]func(context.Context, addends) (sum, error){
		"/adder":                          func(_ context.Context, in addends) (sum, error) { return add(in), nil },
		"/adder-with-sidecar":             overREST("tcp", sidecar),
		"/adder-with-sidecar-socket":      overREST("unix", socketOf(sidecar)),
		"/adder-with-other":               overREST("tcp", other),
		"/adder-with-sidecar-grpc":        overGRPC("tcp", sidecar),
		"/adder-with-sidecar-grpc-socket": overGRPC("unix", socketOf(sidecar)),
	} {
		routes.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			payload, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			in := addends{requests.Add(1), 2, payload}
			out, err := call(r.Context(), in)
			if err == nil && out != add(in) {
				err = fmt.Errorf("the function returned %+v", out)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			_ = json.NewEncoder(w).Encode(out)
		})
	}
	routes.HandleFunc("/ready", func(http.ResponseWriter, *http.Request) {})
	return routes
}

// overREST calls the function with JSON over HTTP/1.1 and persistent connections.
func overREST(network, address string) func(context.Context, addends) (sum, error) {
	over := connected(network, address)
	return func(ctx context.Context, in addends) (out sum, err error) {
		body, err := json.Marshal(in)
		if err != nil {
			return out, err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sidecar/", bytes.NewReader(body))
		if err != nil {
			return out, err
		}
		resp, err := over.RoundTrip(r)
		if err != nil {
			return out, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return out, fmt.Errorf("the sidecar answers %s", resp.Status)
		}
		return out, json.NewDecoder(resp.Body).Decode(&out)
	}
}

// overGRPC calls the function with protobuf over HTTP/2. Concurrent calls share a connection.
func overGRPC(network, address string) func(context.Context, addends) (sum, error) {
	over := connected(network, address)
	over.Protocols = new(http.Protocols)
	over.Protocols.SetUnencryptedHTTP2(true)
	return func(ctx context.Context, in addends) (out sum, err error) {
		m := rpc.AppendInt(rpc.AppendInt(nil, 1, uint64(in.First)), 2, uint64(in.Second))
		answer, err := rpc.Call(ctx, over, "sidecar", method, nil, rpc.Message{rpc.AppendSize(m, 3, len(in.Payload)), in.Payload}, 64<<10)
		if err != nil {
			return out, err
		}
		fields, err := rpc.Fields(answer)
		for _, f := range fields {
			switch f.Number {
			case 1:
				out.Result = int64(f.Int)
			case 2:
				out.Checksum = uint32(f.Int)
			}
		}
		return out, err
	}
}

// connected is a transport that always connects to one address.
func connected(network, address string) *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 1 << 10, DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}
