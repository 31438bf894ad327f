package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/base/companion"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/load"
)

// rpcFlags are the flags of gRPC, and what tare-kube is to find out by them.
type rpcFlags struct {
	protos      []string
	importPaths []string

	scheme bool   // a URL begins with grpc:// or grpcs://
	json   []byte // messages
	source string // their place in errors
}

func (f *rpcFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.protos, "proto", nil, "`file` that defines the gRPC service, for servers without reflection; may be repeated")
	flags.StringArrayVar(&f.importPaths, "import-path", nil, "`directory` of the imports of --proto; may be repeated")
}

// grpcSchemes maps URL schemes of gRPC to the schemes of HTTP/2.
var grpcSchemes = map[string]string{"grpc": "http", "grpcs": "https"}

// plainTargets gives gRPC's URLs their scheme of HTTP/2.
func (f *rpcFlags) plainTargets(p *load.Profile) error {
	for i, raw := range p.Targets {
		name, rest, _ := strings.Cut(raw, "://")
		scheme, isGRPC := grpcSchemes[name]
		if !isGRPC {
			continue
		}
		f.scheme = true
		p.Targets[i] = scheme + "://" + rest
	}
	if f.scheme && p.Protocol != "" && p.Protocol != load.ProtocolGRPC {
		return fmt.Errorf("a URL of gRPC with protocol %s", p.Protocol)
	}
	if f.scheme {
		p.Protocol = load.ProtocolGRPC
	}
	return nil
}

// refuse finds flags of gRPC in a load of another protocol, and files that are missing. Those of --proto may lie in a
// directory of --import-path.
func (f *rpcFlags) refuse(p *load.Profile, changed func(string) bool) error {
	for _, flag := range []string{"proto", "import-path"} {
		if changed(flag) && p.Protocol != load.ProtocolGRPC {
			return fmt.Errorf("--%s needs a URL of gRPC, such as grpc://127.0.0.1:50051", flag)
		}
	}
	var errs []error
	for _, dir := range f.importPaths {
		if _, err := os.Stat(dir); err != nil {
			errs = append(errs, fmt.Errorf("--import-path: %w", err))
		}
	}
	for _, name := range f.protos {
		_, err := os.Stat(name)
		for _, dir := range f.importPaths {
			if err != nil {
				_, err = os.Stat(filepath.Join(dir, name))
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--proto: %w", err))
		}
	}
	return errors.Join(errs...)
}

// takeData keeps the body of --data as JSON if it is to be encoded.
func (f *rpcFlags) takeData(p *load.Profile, body []byte, source string) bool {
	text := bytes.TrimSpace(body)
	isJSON := bytes.HasPrefix(text, []byte("{")) || bytes.HasPrefix(text, []byte("["))
	if p.Protocol != load.ProtocolGRPC || !isJSON && !f.described(p) {
		return false
	}
	f.json, f.source = body, source
	return true
}

// lists reports whether the first URL has no method, so that the methods are listed.
func (f *rpcFlags) lists(p *load.Profile) bool {
	if !f.described(p) || len(p.Targets) == 0 {
		return false
	}
	u, err := url.Parse(p.Targets[0])
	return err == nil && !strings.Contains(strings.Trim(u.Path, "/"), "/")
}

// described reports whether tare-kube is to describe the method.
func (f *rpcFlags) described(p *load.Profile) bool {
	return p.Protocol == load.ProtocolGRPC && p.RequestSize == 0 && (f.scheme || f.json != nil || len(f.protos) > 0)
}

// encode finds the method of p, and sets the messages and streams of its calls.
func (f *rpcFlags) encode(ctx context.Context, p *load.Profile) error {
	r, err := f.ask(ctx, p)
	if err != nil {
		return err
	}
	if len(r.Methods) != 1 {
		return fmt.Errorf("%d methods for one", len(r.Methods))
	}
	m := r.Methods[0]
	p.Messages, p.GRPCStream = r.Messages, m.ServerStreams
	p.RoundTrips = m.ClientStreams && m.ServerStreams
	return p.Validate()
}

func (c loadCommand) listMethods(ctx context.Context, p *load.Profile, f *loadFlags) error {
	r, err := f.rpc.ask(ctx, p)
	if err != nil {
		return err
	}
	if f.output == "json" {
		return safeJSON(c.Out, r.Methods)
	}
	if len(r.Methods) == 0 {
		return errors.New("the server has no service")
	}
	return printable.Writing(c.Out, func(w io.Writer) error { return writeMethods(w, r.Methods) })
}

// ask starts tare-kube.
func (f *rpcFlags) ask(ctx context.Context, p *load.Profile) (load.GRPCReply, error) {
	u, err := url.Parse(p.Targets[0])
	if err != nil {
		return load.GRPCReply{}, err
	}
	program, err := companion.Kube.Find()
	if err != nil {
		return load.GRPCReply{}, err
	}
	server := load.Profile{Targets: []string{u.Scheme + "://" + u.Host}, Protocol: load.ProtocolGRPC, Headers: p.Headers, ConnectTo: p.ConnectTo,
		Socket: p.Socket, TLS: p.TLS, Timeout: p.Timeout}
	return load.AskGRPC(ctx, program, load.GRPCQuery{Profile: server, Protos: f.protos, ImportPaths: f.importPaths,
		Method: strings.Trim(u.Path, "/"), Data: f.json, Source: f.source})
}

// writeMethods prints methods by service, with an example of each request that has one.
func writeMethods(w io.Writer, all []load.GRPCMethod) error {
	var b strings.Builder
	for i, m := range all {
		if i == 0 || m.Service != all[i-1].Service {
			fmt.Fprintln(&b, m.Service)
		}
		if m.Name == "" {
			continue
		}
		fmt.Fprintf(&b, "  %s(%s) returns (%s)\n", m.Name, streamed(m.ClientStreams, m.Request), streamed(m.ServerStreams, m.Response))
		if m.Example != "" {
			fmt.Fprintf(&b, "    --data '%s'\n", strings.ReplaceAll(m.Example, "'", `'\''`))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func streamed(stream bool, message string) string {
	if stream {
		return "stream " + message
	}
	return message
}
