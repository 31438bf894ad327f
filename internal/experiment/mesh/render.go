package mesh

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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
	var r rendering
	args, config = r.texts("args", s.Args, ctx), []byte(r.text("config", s.Config, ctx))
	return args, config, r.err("sidecar of " + ctx.Pod)
}

// RenderFiles executes the templates of the further files, by name.
func (s Sidecar) RenderFiles(ctx SidecarContext) (map[string][]byte, error) {
	ctx.Concurrency, ctx.Options = max(s.Concurrency, 1), s.Chosen()
	all := map[string][]byte{}
	var r rendering
	for name, text := range s.Files {
		all[name] = []byte(r.text("files."+name, text, ctx))
	}
	return all, r.err("sidecar of " + ctx.Pod)
}

// Render executes the templates of a source.
func (c CounterSource) Render(ctx SidecarContext) (url, socket string, err error) {
	var r rendering
	both := r.texts("counters", []string{c.URL, c.Socket}, ctx)
	return both[0], both[1], r.err("counters of " + ctx.Pod)
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
	var r rendering
	if ctx.Inbound != nil {
		c.Inbound = r.text("inbound", v.Inbound, ctx)
		c.InboundSent = r.text("inboundSent", v.InboundSent, ctx)
		c.InboundHandshakes = r.text("inboundHandshakes", v.InboundHandshakes, ctx)
		c.Denied = r.text("denied", v.Denied, ctx)
		for _, f := range l.Features() {
			if f.Inbound != "" {
				c.Features = append(c.Features, FeatureCounter{f.Option, r.text("features", f.Inbound, ctx)})
			}
		}
	}
	for _, out := range ctx.Outbound {
		data := outboundContext{ctx, out}
		var features []FeatureCounter
		for _, f := range l.Features() {
			if f.Outbound != "" {
				features = append(features, FeatureCounter{f.Option, r.text("features", f.Outbound, data)})
			}
		}
		c.Outbound = append(c.Outbound, OutboundCounters{
			Service:    out.Service,
			Sent:       r.text("outbound", v.Outbound, data),
			Received:   r.text("outboundReceived", v.OutboundReceived, data),
			Handshakes: r.text("outboundHandshakes", v.OutboundHandshakes, data),
			Retries:    r.text("retries", v.Retries, data),
			Timeouts:   r.text("timeouts", v.Timeouts, data),
			Features:   features,
		})
	}
	return c, r.err("counters of " + ctx.Pod)
}

// rendering executes templates. After an error it continues, so that the caller checks err once, at its end.
type rendering struct{ first error }

// text executes a template over data. name is the template's name in an error.
func (r *rendering) text(name, text string, data any) string {
	b, err := execute(name, text, data)
	r.first = cmp.Or(r.first, err)
	return string(b)
}

func (r *rendering) texts(name string, texts []string, data any) (all []string) {
	for i, text := range texts {
		all = append(all, r.text(fmt.Sprintf("%s[%d]", name, i), text, data))
	}
	return all
}

// mapping executes the values of a mapping. A template may leave out its key, by an empty text.
func (r *rendering) mapping(from map[string]string, data any) map[string]string {
	to := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(from)) {
		if text := r.text(key, from[key], data); text != "" {
			to[key] = text
		}
	}
	return to
}

// err returns the first error of the templates of something.
func (r *rendering) err(what string) error {
	if r.first == nil {
		return nil
	}
	return fmt.Errorf("render %s: %w", what, r.first)
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
