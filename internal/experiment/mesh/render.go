package mesh

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"text/template"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// Render executes the sidecar's templates for one pod: the arguments of its
// program and its configuration. The caller writes config to ctx.ConfigPath.
func (s Sidecar) Render(ctx SidecarContext) (args []string, config []byte, err error) {
	if len(ctx.AdminPath) > maxSocketPath {
		return nil, nil, fmt.Errorf("render sidecar of %s: %w: %d bytes, max %d: %s",
			ctx.Pod, ErrSocketPath, len(ctx.AdminPath), maxSocketPath, ctx.AdminPath)
	}
	ctx.Concurrency = cmp.Or(ctx.Concurrency, max(s.Concurrency, 1))
	if ctx.Options == nil {
		ctx.Options = s.Chosen()
	}
	if args, err = renderAll("args", s.Args, ctx); err == nil {
		config, err = execute("config", s.Config, ctx)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("render sidecar of %s: %w", ctx.Pod, err)
	}
	return args, config, nil
}

// RenderFiles executes the templates of the further files, by name.
func (s Sidecar) RenderFiles(ctx SidecarContext) (map[string][]byte, error) {
	ctx.Concurrency, ctx.Options = max(s.Concurrency, 1), s.Chosen()
	all := map[string][]byte{}
	for name, text := range s.Files {
		b, err := execute("files."+name, text, ctx)
		if err != nil {
			return nil, fmt.Errorf("render sidecar of %s: %w", ctx.Pod, err)
		}
		all[name] = b
	}
	return all, nil
}

// Render executes the templates of a source.
func (c CounterSource) Render(ctx SidecarContext) (url, socket string, err error) {
	both, err := renderAll("counters", []string{c.URL, c.Socket}, ctx)
	if err != nil {
		return "", "", fmt.Errorf("render counters of %s: %w", ctx.Pod, err)
	}
	return both[0], both[1], nil
}

// Counters are the names of one sidecar's counters, as its statistics show them.
type Counters struct {
	Inbound           string // empty beside the load generator, which has no clients
	InboundSent       string // empty: no counter
	InboundHandshakes string // empty without mTLS
	Denied            string // empty: no counter
	Features          []FeatureCounter
	Outbound          []OutboundCounters
}

// OutboundCounters are the counters of requests to one service.
type OutboundCounters struct {
	Service    string
	Sent       string
	Received   string // empty: no counter
	Handshakes string // empty without mTLS
	Retries    string // empty where there are none
	Timeouts   string // empty where there are none
	Features   []FeatureCounter
}

// FeatureCounter is the counter that shows that an option acts.
type FeatureCounter struct{ Option, Counter string }

// outboundContext is the data of the templates of outbound counters.
type outboundContext struct {
	SidecarContext
	Out Outbound
}

// Counters executes the counter names for one sidecar.
func (l Local) Counters(ctx SidecarContext) (Counters, error) {
	var c Counters
	v := l.Verify
	var failed error
	name := func(field, text string, data any) string {
		b, err := execute(field, text, data)
		if err != nil && failed == nil {
			failed = fmt.Errorf("render counters of %s: %w", ctx.Pod, err)
		}
		return string(b)
	}
	if ctx.Inbound != nil {
		c.Inbound = name("inbound", v.Inbound, ctx)
		c.InboundSent = name("inboundSent", v.InboundSent, ctx)
		c.InboundHandshakes = name("inboundHandshakes", v.InboundHandshakes, ctx)
		c.Denied = name("denied", v.Denied, ctx)
		for _, f := range l.Features() {
			if f.Inbound != "" {
				c.Features = append(c.Features, FeatureCounter{f.Option, name("features", f.Inbound, ctx)})
			}
		}
	}
	for _, out := range ctx.Outbound {
		data := outboundContext{ctx, out}
		var features []FeatureCounter
		for _, f := range l.Features() {
			if f.Outbound != "" {
				features = append(features, FeatureCounter{f.Option, name("features", f.Outbound, data)})
			}
		}
		c.Outbound = append(c.Outbound, OutboundCounters{
			Service:    out.Service,
			Sent:       name("outbound", v.Outbound, data),
			Received:   name("outboundReceived", v.OutboundReceived, data),
			Handshakes: name("outboundHandshakes", v.OutboundHandshakes, data),
			Retries:    name("retries", v.Retries, data),
			Timeouts:   name("timeouts", v.Timeouts, data),
			Features:   features,
		})
	}
	return c, failed
}

func execute(name, text string, data any) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(functions).Parse(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// maxSocketPath is the length of sun_path on Linux without its final zero byte (unix(7)).
const maxSocketPath = 107

// ErrSocketPath is wrapped by the error about an admin socket with a path too long for the system.
var ErrSocketPath = hint.New("set TMPDIR or XDG_RUNTIME_DIR to a shorter path", "path of a Unix socket is too long")

// functions are additional functions of templates.
var functions = template.FuncMap{
	// json quotes a value, to prevent injection into YAML or JSON.
	"json": func(v any) (string, error) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			return "", err
		}
		return string(bytes.TrimRight(b.Bytes(), "\n")), nil
	},
	"host": hostOf,
	"port": portOf,
	// count lists the numbers from 1 to the value of an option.
	"count": func(text string) ([]int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxCount {
			return nil, fmt.Errorf("%.20q is not a number from 0 to %d", text, maxCount)
		}
		all := make([]int, n)
		for i := range all {
			all[i] = i + 1
		}
		return all, nil
	},
}

// maxCount bounds repetitions in a template: the ports of an address.
const maxCount = 65535
