package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/series"
)

type pushOptions struct {
	url, protocol string
	headers       []string
}

func (o *pushOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.url, "push", "", "send the figures and trials to the `URL` of a Prometheus remote write or OTLP receiver instead, by tare-kube")
	choice(cmd, &o.protocol, "push-protocol", "protocol of --push: "+strings.Join(series.Protocols(), " or ")+" (default: by the path of the URL)", series.Protocols())
	f.StringArrayVar(&o.headers, "push-header", nil, "header of --push, with secrets from the environment or a file: `\"Authorization: Bearer ${env:TOKEN}\"`; may be repeated")
}

// pushReport sends the report of a run. tare hands over to tare-kube.
func (c reporter) pushReport(cmd *cobra.Command, dir string, o reportOptions) error {
	t, err := o.push.target(cmd)
	if err != nil {
		return err
	}
	if c.kubernetes == nil {
		return c.handOver.run(c.handOver.args)
	}
	a, err := analyse(dir, o)
	if err != nil {
		return err
	}
	defer a.Dir.Close()
	all, err := series.Of(a)
	if err != nil {
		return err
	}
	t.Retrying = func(why string) { c.Notef("%s; trying again", why) }
	if err := c.kubernetes.Push(cmd.Context(), t, all); err != nil {
		return err
	}
	c.Notef("pushed %s of %s to %s", series.Count(all), a.Report.Experiment, t)
	return nil
}

// target checks the flags, and reads secrets.
func (o pushOptions) target(cmd *cobra.Command) (*series.Target, error) {
	for _, other := range []string{"format", "output"} {
		if cmd.Flags().Changed(other) {
			return nil, hint.Usage(fmt.Errorf("--push and --%s exclude each other", other), "run tare report twice")
		}
	}
	t, err := series.ParseTarget(o.url, series.Protocol(o.protocol))
	if err != nil {
		return nil, hint.Usage(fmt.Errorf("--push: %w", err), hint.Of(err))
	}
	t.Header = http.Header{}
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, ":")
		name, value = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !ok || name == "" || strings.ContainsAny(name, " \t\r\n") {
			return nil, hint.Usage(errors.New("--push-header has no header's name"), `write it as --push-header "Authorization: Bearer ${env:TOKEN}"`)
		}
		full, err := experiment.WithSecrets(value)
		if err != nil {
			return nil, fmt.Errorf("--push-header %s: %w", name, err)
		}
		if full == value && session.SecretHeader(name) {
			return nil, hint.Usage(fmt.Errorf("--push-header %s has a value that other users of this machine can read", name), fmt.Sprintf(`write it as --push-header "%s: ${env:NAME}" or "${file:PATH}"`, name))
		}
		t.Header.Add(name, full)
	}
	return t, nil
}
