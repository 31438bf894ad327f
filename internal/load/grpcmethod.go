package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
)

// GRPCTask is the argument with which tare-kube answers a query about gRPC methods.
const GRPCTask = "grpc-methods"

// grpcFormat is the version of the contract.
const grpcFormat = 1

// GRPCQuery is the question of tare to tare-kube, which has the protobuf libraries, as JSON on its standard input.
type GRPCQuery struct {
	Format int `json:"format"`
	// Profile has one target and how to connect to it. The server is called only without
	// Protos, by reflection.
	Profile     Profile  `json:"profile"`
	Protos      []string `json:"protos,omitempty"`      // .proto files
	ImportPaths []string `json:"importPaths,omitempty"` // directories of their imports
	// Method is "package.Service/Method". Without a method the reply lists the methods of the
	// service, without a service the methods of all services.
	Method string `json:"method,omitempty"`
	// Data are messages in JSON: one, several in a row, or an array of them. Source is
	// their place in errors, such as "--data".
	Data   []byte `json:"data,omitempty"`
	Source string `json:"source,omitempty"`
}

// GRPCReply is the answer of tare-kube, as JSON on its standard output.
type GRPCReply struct {
	// Methods are the methods that the query matches.
	Methods []GRPCMethod `json:"methods,omitempty"`
	// Messages are encoded, for the one method.
	Messages [][]byte `json:"messages,omitempty"`
	Error    string   `json:"error,omitempty"`
	Hint     string   `json:"hint,omitempty"`
}

// GRPCMethod is a method of a service.
type GRPCMethod struct {
	Service       string `json:"service"` // full name
	Name          string `json:"name"`
	Request       string `json:"request"` // full name of the message
	Response      string `json:"response"`
	ClientStreams bool   `json:"clientStreams,omitempty"`
	ServerStreams bool   `json:"serverStreams,omitempty"`
	// Example is a request in JSON with every field at its default.
	Example string `json:"example,omitempty"`
}

const (
	maxGRPCQuery = 1 << 30 // bytes
	maxGRPCReply = 2 << 30 // bytes: base64 and the names around
	maxGRPCNote  = 4 << 10 // bytes of standard error
)

// AskGRPC starts tare-kube at a path and returns its reply: it finds the method of a gRPC load and encodes its
// messages, once before the load.
func AskGRPC(ctx context.Context, program string, q GRPCQuery) (GRPCReply, error) {
	q.Format = grpcFormat
	in, err := json.Marshal(q)
	if err != nil {
		return GRPCReply{}, err
	}
	cmd := exec.CommandContext(ctx, program, GRPCTask)
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return GRPCReply{}, fmt.Errorf("start %s: %w", program, err)
	}
	var r GRPCReply
	d := json.NewDecoder(io.LimitReader(out, maxGRPCReply))
	d.DisallowUnknownFields()
	errRead := d.Decode(&r)
	_, _ = io.Copy(io.Discard, out)
	switch errRun := cmd.Wait(); {
	case ctx.Err() != nil:
		return GRPCReply{}, ctx.Err()
	case errRun != nil || errRead != nil:
		note := stderr.Bytes()
		return GRPCReply{}, fmt.Errorf("%s: %w: %s", program, errors.Join(errRun, errRead), printable.Text(string(note[:min(len(note), maxGRPCNote)])))
	case r.Error != "":
		return GRPCReply{}, hint.New(r.Hint, "%s", r.Error)
	}
	return r, nil
}

// AnswerGRPC reads a query, and writes the reply of answer.
func AnswerGRPC(ctx context.Context, in io.Reader, out io.Writer, answer func(context.Context, GRPCQuery) (GRPCReply, error)) error {
	var q GRPCQuery
	d := json.NewDecoder(io.LimitReader(in, maxGRPCQuery))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return fmt.Errorf("read query: %w", err)
	}
	if q.Format != grpcFormat {
		return fmt.Errorf("the query has format %d, and this program reads %d: tare and tare-kube are of different versions", q.Format, grpcFormat)
	}
	r, err := answer(ctx, q)
	if err != nil {
		r = GRPCReply{Error: err.Error(), Hint: hint.Of(err)}
	}
	return json.NewEncoder(out).Encode(r)
}
