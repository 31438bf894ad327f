package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"

	"google.golang.org/grpc"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// The study "to sidecar or not" calls one function in five ways: in process, and
// in a sidecar over REST and gRPC, each over loopback TCP and a Unix socket. The
// function adds two numbers. Here it also takes a payload, because the study did
// not test large ones. The payload's checksum verifies its arrival.

// addends are the arguments of the function. In JSON the payload is base64.
type addends struct {
	First   int64  `json:"first"`
	Second  int64  `json:"second"`
	Payload []byte `json:"payload,omitempty"`
}

// sum is the result of the function.
type sum struct {
	Result   int64  `json:"result"`
	Checksum uint32 `json:"checksum,omitempty"`
}

// adder calls the function over one transport.
type adder func(ctx context.Context, in addends) (sum, error)

// add is the function.
func add(_ context.Context, in addends) (sum, error) {
	return sum{in.First + in.Second, crc32.ChecksumIEEE(in.Payload)}, nil
}

// Route is one route of the server and its transport to the function.
type Route struct {
	app.AdderRoute
	way func(Ways) (adder, error)
}

// ways maps the path of a route to its transport.
var ways = map[string]func(Ways) (adder, error){
	"/adder":                          func(Ways) (adder, error) { return add, nil },
	"/adder-with-sidecar":             func(w Ways) (adder, error) { return restAdder("tcp", w.REST), nil },
	"/adder-with-sidecar-socket":      func(w Ways) (adder, error) { return restAdder("unix", w.RESTSocket), nil },
	"/adder-with-sidecar-grpc":        func(w Ways) (adder, error) { return grpcAdder("passthrough:///" + w.GRPC) },
	"/adder-with-sidecar-grpc-socket": func(w Ways) (adder, error) { return grpcAdder("unix://" + w.GRPCSocket) },
}

// Routes lists the server's routes.
func Routes() []Route {
	var all []Route
	for _, r := range app.AdderRoutes() {
		all = append(all, Route{r, ways[r.Path]})
	}
	return all
}

// Ways contains the addresses of the sidecar: HOST:PORT, and socket paths.
type Ways struct{ REST, RESTSocket, GRPC, GRPCSocket string }

// restAdder calls the function with JSON over HTTP/1.1 and persistent
// connections.
func restAdder(network, address string) adder {
	transport := &http.Transport{
		MaxIdleConnsPerHost: 1 << 16, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	return func(ctx context.Context, in addends) (sum, error) {
		var out sum
		body, err := json.Marshal(in)
		if err != nil {
			return out, err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sidecar/adder", bytes.NewReader(body))
		if err != nil {
			return out, err
		}
		r.Header.Set("Content-Type", typeJSON)
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return out, err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(io.LimitReader(resp.Body, maxReason+chunk))
		switch {
		case err != nil:
			return out, err
		case resp.StatusCode != http.StatusOK:
			return out, fmt.Errorf("%s: %.200s", resp.Status, answer)
		}
		return out, json.Unmarshal(answer, &out)
	}
}

const addMethod = "/tare.v1.Adder/Add"

// grpcAdder calls the function with protobuf over HTTP/2, on one connection.
func grpcAdder(target string) (adder, error) {
	conn, err := grpc.NewClient(target, grpcOptions...)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, in addends) (sum, error) {
		var out AddReply
		if err := conn.Invoke(ctx, addMethod, &AddRequest{A: in.First, B: in.Second, Payload: in.Payload}, &out); err != nil {
			return sum{}, err
		}
		return sum{out.GetSum(), out.GetChecksum()}, nil
	}, nil
}

// adderDesc is the gRPC description of the function.
var adderDesc = grpc.ServiceDesc{
	ServiceName: "tare.v1.Adder",
	HandlerType: (*adding)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Add",
		Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(AddRequest)
			if err := decode(in); err != nil {
				return nil, err
			}
			return srv.(adding).Add(ctx, in)
		},
	}},
	Metadata: "internal/service/adder.proto",
}

// adding is the interface of the gRPC handler.
type adding interface {
	Add(context.Context, *AddRequest) (*AddReply, error)
}
