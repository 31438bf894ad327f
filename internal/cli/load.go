package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/engine"
	"github.com/tare-mesh/tare/internal/load/host"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/loadpage"
)

var loadOutputs = []string{"text", "json", "csv", "hdr"}

// longest bounds a load that ends by its requests.
const longest = 24 * time.Hour

func newLoadCommand(c *CommandLine) *cobra.Command {
	f := &loadFlags{}
	cmd := &cobra.Command{
		Use:   "load [URL…]",
		Short: "Send load to a URL, and print outcomes and latencies",
		Long: `load sends requests to one or more URLs and prints outcomes and latencies.

With --rate N requests follow a schedule (open loop). Response time counts from the
intended start of a request, so a pause of the server shows in every request that
was due during it. With --rate max each connection sends its next request after a
response (closed loop). That measures capacity, and times are service times.`,
		Example: `  tare load http://127.0.0.1:8080/                               # as fast as it can, for 10 s
  tare load http://127.0.0.1:8080/ -r 1000 -z 30s                # 1000 requests/s, as independent users send them
  tare load http://127.0.0.1:8080/ -n 10000 -c 16 -o csv         # 10000 requests, one line per second
  tare load http://127.0.0.1:8080/items --data '{"name": "tare"}' -r 200
  tare load http://127.0.0.1:8080/ -H 'Authorization: Bearer ${env:TOKEN}'     # the list of processes does not show it
  tare load --targets requests.txt -r 200                        # vegeta's targets, or JSON lines
  tare load http://127.0.0.1:8080/ -r 100 --gate 'p99 < 50ms, errors < 0.1%'   # exit code 4 if it does not hold
  tare load http://127.0.0.1:8080/ --find-max 'p99 < 50ms, errors < 0.1%'      # the highest rate that holds
  tare load http://127.0.0.1:8080/ --ramp 10s@100,30s@100-2000   # a step, then a ramp
  tare load https://127.0.0.1:8443/ --protocol auto --cacert ca.pem --cert me.pem --key me.key
  tare load https://shop.example/ --resolve shop.example:443:127.0.0.1 -k -r 100
  tare load grpc://127.0.0.1:50051/shop.Cart/Add --data @message.bin -r 200    # encoded by protoc --encode
  tare load wss://127.0.0.1:8443/chat --data hello -r 500        # WebSocket: each message must come back
  tare load tcp://127.0.0.1:7000 --body-size 128 -r 1000         # an echo: what is sent must come back
  tare load http://127.0.0.1:8080/ -r 20000 --workers 3          # more than one thread can send`,
		RunE: func(cmd *cobra.Command, urls []string) error {
			f.changed, f.in, f.notef = cmd.Flags().Changed, c.In, c.Notef
			p, err := f.build(urls)
			if err != nil {
				return hint.Usage(err, cmp.Or(hint.Of(err), "`tare load --help` shows examples"))
			}
			if err := session.FilesFit("--connections", p.Connections); err != nil {
				return err
			}
			if f.findMax != "" {
				return capacitySearch{c}.findMax(cmd.Context(), p, f, func(ctx context.Context, p load.Profile) (load.Report, error) {
					return runLoad(ctx, p, nil)
				})
			}
			return loadCommand{c}.load(cmd, p, f)
		},
	}
	f.register(cmd.Flags())
	cmd.SetUsageFunc(groupedUsage(loadGroups))
	return cmd
}

type loadCommand struct{ *CommandLine }

// load runs p, with a live line on a terminal, and prints the outcome.
func (c loadCommand) load(cmd *cobra.Command, p load.Profile, f *loadFlags) error {
	live := loadpage.Live{W: c.Err, Width: func() int { return console.Width(c.Err) }, Profile: &p, Color: console.Color(c.Err)}
	progress := func(load.Progress) {}
	ctx, end := context.WithCancel(cmd.Context())
	defer end()
	var restored func()
	if console.IsTerminal(c.Err) && os.Getenv("TERM") != "dumb" {
		progress = live.Show
		restored = console.Keys(ctx, c.In, func(key byte) {
			if key == 'q' {
				end()
			}
		})
		if restored != nil {
			live.Begin()
		}
	}
	defer c.WhileInterrupted(func() {
		end()
		if restored != nil {
			restored()
		}
	}, "\ntare: interrupted: waiting for requests in flight; press Ctrl-C twice more to stop immediately")()
	if f.output == "hdr" || f.output == "csv" {
		dir, err := os.MkdirTemp("", "tare-load-")
		if err != nil {
			return fmt.Errorf("write interval log: %w", err)
		}
		defer os.RemoveAll(dir)
		p.HDRPath = filepath.Join(dir, "log.hdr")
	}
	report, err := runLoad(ctx, p, progress)
	live.Clear()
	if end(); restored != nil {
		restored()
	}
	if err != nil && !errors.Is(err, engine.ErrNoConnection) {
		return err
	}
	ended := err
	switch {
	case err != nil:
	case cmd.Context().Err() != nil: // the load's own end, by the key q, is none
		ended = &console.ExitError{Err: errors.New("interrupted: the report is of the load so far"), Code: console.Interrupted}
	default:
		ended = f.verdict(&report)
	}
	if unwritten := c.writeLoad(f, &p, &report, ended); unwritten != nil {
		return errors.Join(err, fmt.Errorf("write load report: %w", unwritten))
	}
	return ended
}

// runLoad runs p in this process.
func runLoad(ctx context.Context, p load.Profile, progress func(load.Progress)) (load.Report, error) {
	host.TuneProcess(p.Workers)
	return engine.Run(ctx, p, progress)
}

// writeLoad writes the outcome in one of loadOutputs. For csv and hdr the interval log is
// at p.HDRPath. ended is the error with which the command ends.
func (c loadCommand) writeLoad(f *loadFlags, p *load.Profile, r *load.Report, ended error) error {
	switch f.output {
	case "text":
		return loadpage.Write(c.Out, p, r, loadpage.Options{Width: console.Columns(c.Out), Color: console.Color(c.Out), Gates: f.gatesOf(r)})
	case "json":
		b := loadpage.BriefOf(p, r, f.gatesOf(r), ended, console.Code(ended))
		b.Subject = withoutQueries(p.Targets)
		return answered(c.Out, b, r)
	}
	log, err := hdrlog.Open(p.HDRPath)
	if err != nil {
		return err
	}
	defer log.Close()
	if f.output == "csv" {
		return writeLoadCSV(c.Out, log, p)
	}
	_, err = io.Copy(c.Out, log)
	return err
}
