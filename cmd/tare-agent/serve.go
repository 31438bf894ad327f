package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/inside/service"
)

// maxConfig is the max size of a configuration, bytes.
const maxConfig = strict.MaxBytes

type serveFlags struct {
	listen, admin, tokenFile, config string
	maxMemory                        app.Size
	calls                            callList
	errors                           app.Errors
	source                           net.IP
	instance                         app.Instance
}

func newServeCommand() *cobra.Command {
	var o serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one service: respond to requests as configured, after calls to other services",
		Long: `serve plays one service of a topology. What it does with a request comes from
a file (YAML or JSON), or from flags, which override it. With --admin it can be
read and, with --token-file, changed over REST while it runs.`,
		Example: `  tare-agent serve --listen 127.0.0.1:8080 --response-size 1KiB
  tare-agent serve --listen 127.0.0.1:8081 --time 'lognormal(10ms, 0.5)' --cpu 100us
  tare-agent serve --listen 127.0.0.1:8082 --call back=http://127.0.0.1:8080/
  tare-agent serve --listen 127.0.0.1:8083 \
    --call '{service: back, urls: [http://127.0.0.1:8080/], probability: 0.5, timeout: 1s, retries: 2}'
  tare-agent serve --listen 127.0.0.1:8084 --admin 127.0.0.1:9000 --token-file token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			instance, err := readInstance(o.config, cmd.InOrStdin())
			if err != nil {
				return err
			}
			o.override(cmd, &instance)
			return o.serve(cmd.Context(), cmd.OutOrStdout(), instance)
		},
	}
	o.add(cmd.Flags())
	return cmd
}

func (o *serveFlags) add(f *pflag.FlagSet) {
	i := &o.instance
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "`address` to listen on: HOST:PORT, or fd:3 for an inherited socket")
	f.StringVar(&o.admin, "admin", "", "`address` of the REST interface (default: none)")
	f.StringVar(&o.tokenFile, "token-file", "", "`file` with the token for changes over REST, readable only by its owner")
	f.StringVar(&o.config, "config", "", "the service as YAML or JSON, from a `file` or - for standard input")
	f.Var(scalar{&o.maxMemory, "size"}, "max-memory", "memory limit of a configuration; default "+service.DefaultMaxMemory.String())
	f.IPVar(&o.source, "source", nil, "loopback source `address` of calls to other services (default: the kernel's choice)")
	f.StringVar(&i.Name, "name", "service", "the service's name")
	f.StringVar(&i.Protocol, "protocol", "", "`protocol`: http1 or http2 (both on one port), grpc, tcp (echo)")
	f.Var(scalar{&i.ResponseSize, "size"}, "response-size", "length of the response body: 1KiB, or a distribution such as uniform(1KiB, 4KiB)")
	f.IntVar(&i.Status, "status", 0, "`status` of every response (0: 200)")
	f.Var(scalar{&i.Time, "time"}, "time", "wait before anything else: 100ms, or a distribution such as exponential(10ms)")
	f.Var(scalar{&i.Delay, "time"}, "delay", "wait on top of --time")
	f.Var(scalar{&i.CPU, "time"}, "cpu", "CPU time to burn per request")
	f.Var(scalar{&i.Memory, "size"}, "memory", "memory to hold")
	f.Float64Var(&o.errors.Ratio, "error-ratio", 0, "share of failed responses, `0..1`")
	f.IntVar(&o.errors.Status, "error-status", 0, "`status` of failed responses (0: 500)")
	f.Float64Var(&i.RateLimit, "rate-limit", 0, "rate limit in `requests` per second; others get status 429 (0: no limit)")
	f.IntVar(&i.FailedCallStatus, "failed-call-status", 0, "`status` of the response after a failed call (0: 502)")
	f.StringToStringVar(&i.Redirects, "redirect", nil, "redirect a path to another with status 301: `/from=/to`")
	f.Var(&o.calls, "call", "call another service before answering, `NAME=URL[,URL...]`, or all of a call's fields as YAML: {service: …, urls: […], …}; repeat for more, in order")
}

// scalar is a flag that is parsed like the same value in a file.
type scalar struct {
	strict.Scalar
	kind string
}

func (s scalar) Set(text string) error { return s.UnmarshalScalar(text) }
func (s scalar) Type() string          { return s.kind }
func (s scalar) String() string {
	if t, ok := s.Scalar.(fmt.Stringer); ok && t != nil {
		return t.String()
	}
	return ""
}

// callList are the calls of flags, each NAME=URL[,URL…] or in the syntax of a
// file.
type callList []app.Upstream

func (callList) Type() string    { return "call" }
func (*callList) String() string { return "" }

func (l *callList) Set(text string) error {
	if strings.HasPrefix(text, "{") {
		i, err := app.DecodeInstance("call", []byte("{name: caller, calls: ["+text+"]}"))
		if mistakes, ok := errors.AsType[strict.Problems](err); ok {
			return fmt.Errorf("%s", strings.TrimPrefix(mistakes[0].Message, "calls[0]."))
		}
		*l = append(*l, i.Calls...)
		return err
	}
	name, urls, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q is not NAME=URL", text)
	}
	*l = append(*l, app.Upstream{Service: name, URLs: strings.Split(urls, ",")})
	return nil
}

func readInstance(path string, stdin io.Reader) (app.Instance, error) {
	var data []byte
	var err error
	switch path {
	case "":
		return app.Instance{}, nil
	case "-":
		path = "standard input"
		data, err = io.ReadAll(io.LimitReader(stdin, maxConfig+1))
	default:
		data, err = strict.ReadFile(path)
	}
	if err != nil {
		return app.Instance{}, fmt.Errorf("read the service's configuration: %w", err)
	}
	return app.DecodeInstance(path, data)
}

// override replaces the configuration's fields with the given flags.
func (o *serveFlags) override(cmd *cobra.Command, i *app.Instance) {
	from := o.instance
	for name, take := range map[string]func(){
		"name": func() { i.Name = from.Name }, "protocol": func() { i.Protocol = from.Protocol },
		"response-size": func() { i.ResponseSize = from.ResponseSize }, "status": func() { i.Status = from.Status },
		"time": func() { i.Time = from.Time }, "delay": func() { i.Delay = from.Delay },
		"cpu": func() { i.CPU = from.CPU }, "memory": func() { i.Memory = from.Memory },
		"error-ratio": func() { failures(i).Ratio = o.errors.Ratio }, "error-status": func() { failures(i).Status = o.errors.Status },
		"redirect":           func() { i.Redirects = from.Redirects },
		"call":               func() { i.Calls = o.calls },
		"rate-limit":         func() { i.RateLimit = from.RateLimit },
		"failed-call-status": func() { i.FailedCallStatus = from.FailedCallStatus },
	} {
		if cmd.Flags().Changed(name) {
			take()
		}
	}
	i.Name = cmp.Or(i.Name, from.Name)
}

func failures(i *app.Instance) *app.Errors {
	if i.Errors == nil {
		i.Errors = new(app.Errors)
	}
	return i.Errors
}

// serve serves all configured ports until ctx ends or one of them fails.
func (o *serveFlags) serve(ctx context.Context, out io.Writer, instance app.Instance) error {
	source, _ := netip.AddrFromSlice(o.source) // the zero Addr if unset
	s, err := service.New(instance, service.Options{MaxMemory: o.maxMemory, Source: source.Unmap()})
	if err != nil {
		return err
	}
	token := ""
	if o.tokenFile != "" {
		if token, err = service.ReadToken(o.tokenFile); err != nil {
			return err
		}
	}
	access := ""
	if token == "" {
		access = " (read only: there is no --token-file)"
	}
	var ready atomic.Bool
	ports := []port{
		{o.listen, func(ctx context.Context, l net.Listener) error { return service.Serve(ctx, l, s) }, "answers on %s"},
		{o.admin, func(ctx context.Context, l net.Listener) error {
			return service.ServeAdmin(ctx, l, service.NewAdmin(s, token, ready.Load))
		}, "REST interface: http://%s/" + access},
	}
	return serveAll(ctx, out, instance.Name, ports, &ready)
}

type port struct {
	address string // empty: not served
	serve   func(context.Context, net.Listener) error
	ready   string // line printed when ready, with %s for the address
}

func serveAll(ctx context.Context, out io.Writer, name string, ports []port, ready *atomic.Bool) error {
	// All ports are bound before any is served, so that an unavailable one is found
	// at once.
	listeners := make([]net.Listener, len(ports))
	for i, p := range ports {
		if p.address == "" {
			continue
		}
		var err error
		if listeners[i], err = service.Listen(p.address); err != nil {
			return err
		}
		defer listeners[i].Close()
	}
	serving, ctx := errgroup.WithContext(ctx)
	for i, l := range listeners {
		if l == nil {
			continue
		}
		serving.Go(func() error { return ports[i].serve(ctx, l) })
		fmt.Fprintf(out, "tare-agent: service %s "+ports[i].ready+"\n", name, l.Addr())
	}
	ready.Store(true)
	defer ready.Store(false)
	return serving.Wait()
}
