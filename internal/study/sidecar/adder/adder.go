// Package adder is the program of the study "to sidecar or not": a server, a sidecar
// and a client. The function adds two numbers. It also takes a payload, because the
// study did not test large ones. The payload's checksum verifies its arrival.
package adder

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"

	"github.com/tare-mesh/tare/internal/base/rpc"
	"github.com/tare-mesh/tare/internal/study/sidecar"
)

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

// transport calls the function.
type transport func(ctx context.Context, in addends) (sum, error)

// add is the function.
func add(_ context.Context, in addends) (sum, error) {
	return sum{in.First + in.Second, crc32.ChecksumIEEE(in.Payload)}, nil
}

// route is one route of the server.
type route struct {
	path string
	// server and client are the label route of server_response_time and of
	// client_response_time, as the study's dashboards have them.
	server, client string
	to             func(Ways) transport
}

// routes are the routes of [sidecar.Program], in its order.
var routes = []route{
	{sidecar.InProcess, "adder", "adder-local", func(Ways) transport { return add }},
	{sidecar.REST, "adder-with-sidecar", "adder-sidecar", func(w Ways) transport { return overREST("tcp", w.REST) }},
	{sidecar.RESTSocket, "adder-with-sidecar-socket", "adder-sidecar-socket", func(w Ways) transport { return overREST("unix", w.RESTSocket) }},
	{sidecar.GRPC, "adder-with-grpc-sidecar", "adder-sidecar-grpc", func(w Ways) transport { return overGRPC("tcp", w.GRPC) }},
	{sidecar.GRPCSocket, "adder-with-grpc-sidecar-socket", "adder-sidecar-grpc-socket", func(w Ways) transport { return overGRPC("unix", w.GRPCSocket) }},
}

// Ways contains the addresses of the sidecar: HOST:PORT, and socket paths.
type Ways struct{ REST, RESTSocket, GRPC, GRPCSocket string }

// host is the name of the sidecar in requests.
const host = "sidecar"

// overREST calls the function with JSON over HTTP/1.1 and persistent connections.
func overREST(network, address string) transport {
	over := connected(network, address)
	return func(ctx context.Context, in addends) (sum, error) {
		var out sum
		body, err := json.Marshal(in)
		if err != nil {
			return out, err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+sidecar.InProcess, bytes.NewReader(body))
		if err != nil {
			return out, err
		}
		r.Header.Set("Content-Type", typeJSON)
		resp, err := over.RoundTrip(r)
		if err != nil {
			return out, err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		switch {
		case err != nil:
			return out, err
		case resp.StatusCode != http.StatusOK:
			return out, fmt.Errorf("%s: %.200s", resp.Status, answer)
		}
		return out, json.Unmarshal(answer, &out)
	}
}

const (
	typeJSON = "application/json"
	// maxAnswer is the max size of the sidecar's answer in bytes: two numbers, or an error.
	maxAnswer = 64 << 10
	// maxBody is the max size of a request in bytes: a payload of 64 MiB in base64.
	maxBody = 96 << 20
)

// grpcFile describes the function's gRPC service.
var grpcFile = rpc.File{
	Name: "tare/v1/adder.proto", Package: "tare.v1",
	Messages: []rpc.Type{
		{Name: "AddRequest", Fields: []rpc.FieldType{{Name: "a", Number: 1, Kind: rpc.Int64}, {Name: "b", Number: 2, Kind: rpc.Int64}, {Name: "payload", Number: 3, Kind: rpc.Bytes}}},
		{Name: "AddReply", Fields: []rpc.FieldType{{Name: "sum", Number: 1, Kind: rpc.Int64}, {Name: "checksum", Number: 2, Kind: rpc.Uint32}}},
	},
	Service: "Adder",
	Methods: []rpc.MethodType{{Name: "Add", Request: "AddRequest", Response: "AddReply"}},
}

const addMethod = "/tare.v1.Adder/Add"

// overGRPC calls the function with protobuf over HTTP/2. Concurrent calls share a connection.
func overGRPC(network, address string) transport {
	over := connected(network, address)
	over.Protocols = new(http.Protocols)
	over.Protocols.SetUnencryptedHTTP2(true)
	return func(ctx context.Context, in addends) (sum, error) {
		answer, err := rpc.Call(ctx, over, host, addMethod, nil, in.encode(), maxAnswer)
		if err != nil {
			return sum{}, err
		}
		return decodeSum(answer)
	}
}

// connected is a transport that always connects to one address.
func connected(network, address string) *http.Transport {
	return &http.Transport{
		MaxIdleConnsPerHost: 1 << 16, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
}

func (in addends) encode() rpc.Message {
	m := rpc.AppendInt(nil, 1, uint64(in.First))
	m = rpc.AppendInt(m, 2, uint64(in.Second))
	if len(in.Payload) == 0 {
		return rpc.Message{m}
	}
	return rpc.Message{rpc.AppendSize(m, 3, len(in.Payload)), in.Payload}
}

func decodeAddends(m []byte) (addends, error) {
	var in addends
	fields, err := rpc.Fields(m)
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
	return in, err
}

func (s sum) encode() rpc.Message {
	return rpc.Message{rpc.AppendInt(rpc.AppendInt(nil, 1, uint64(s.Result)), 2, uint64(s.Checksum))}
}

func decodeSum(m []byte) (sum, error) {
	var s sum
	fields, err := rpc.Fields(m)
	for _, f := range fields {
		switch f.Number {
		case 1:
			s.Result = int64(f.Int)
		case 2:
			s.Checksum = uint32(f.Int)
		}
	}
	return s, err
}
