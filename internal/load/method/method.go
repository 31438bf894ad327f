// Package method is the contract between tare and tare-kube, which has the protobuf libraries: it
// finds the method of a gRPC load and encodes its messages, once before the load.
package method

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
	"github.com/tare-mesh/tare/internal/load"
)

// Task is the argument with which tare-kube answers a query.
const Task = "grpc-methods"

// Format is the version of the contract.
const Format = 1

// Query is the question to tare-kube, as JSON on its standard input.
type Query struct {
	Format int `json:"format"`
	// Profile has one target and how to connect to it. The server is called only without
	// Protos and Protoset, by reflection.
	Profile     load.Profile `json:"profile"`
	Protos      []string     `json:"protos,omitempty"`      // .proto files
	ImportPaths []string     `json:"importPaths,omitempty"` // directories of their imports
	Protoset    string       `json:"protoset,omitempty"`    // file of protoc --descriptor_set_out
	// Method is "package.Service/Method". Without a method the reply lists the methods of the
	// service, without a service the methods of all services.
	Method string `json:"method,omitempty"`
	// Data are messages in JSON: one, several in a row, or an array of them. Source is
	// their place in errors, such as "--data".
	Data   []byte `json:"data,omitempty"`
	Source string `json:"source,omitempty"`
}

// Reply is the answer of tare-kube, as JSON on its standard output.
type Reply struct {
	// Methods are the methods that the query matches.
	Methods []Method `json:"methods,omitempty"`
	// Messages are encoded, for the one method.
	Messages [][]byte `json:"messages,omitempty"`
	Error    string   `json:"error,omitempty"`
	Hint     string   `json:"hint,omitempty"`
}

// Method is a method of a service.
type Method struct {
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
	maxQuery = 1 << 30 // bytes
	maxReply = 2 << 30 // bytes: base64 and the names around
	maxNote  = 4 << 10 // bytes of standard error
)

// Ask starts tare-kube at a path and returns its reply.
func Ask(ctx context.Context, program string, q Query) (Reply, error) {
	q.Format = Format
	in, err := json.Marshal(q)
	if err != nil {
		return Reply{}, err
	}
	cmd := exec.CommandContext(ctx, program, Task)
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return Reply{}, fmt.Errorf("start %s: %w", program, err)
	}
	var r Reply
	d := json.NewDecoder(io.LimitReader(out, maxReply))
	d.DisallowUnknownFields()
	errRead := d.Decode(&r)
	_, _ = io.Copy(io.Discard, out)
	switch errRun := cmd.Wait(); {
	case ctx.Err() != nil:
		return Reply{}, ctx.Err()
	case errRun != nil || errRead != nil:
		note := stderr.Bytes()
		return Reply{}, fmt.Errorf("%s: %w: %s", program, errors.Join(errRun, errRead), printable.Text(string(note[:min(len(note), maxNote)])))
	case r.Error != "":
		return Reply{}, hint.New(r.Hint, "%s", r.Error)
	}
	return r, nil
}

// Serve reads a query, and writes the reply of answer.
func Serve(ctx context.Context, in io.Reader, out io.Writer, answer func(context.Context, Query) (Reply, error)) error {
	var q Query
	d := json.NewDecoder(io.LimitReader(in, maxQuery))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return fmt.Errorf("read query: %w", err)
	}
	if q.Format != Format {
		return fmt.Errorf("the query has format %d, and this program reads %d: tare and tare-kube are of different versions", q.Format, Format)
	}
	r, err := answer(ctx, q)
	if err != nil {
		r = Reply{Error: err.Error(), Hint: hint.Of(err)}
	}
	return json.NewEncoder(out).Encode(r)
}
