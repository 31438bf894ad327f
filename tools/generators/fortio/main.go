// Command fortio is the load command of Fortio, over Fortio's own packages: its
// runner, its clients, its statistics and its JSON. The whole of Fortio's command
// also holds a script interpreter that not every module proxy serves. This one
// takes the flags of `fortio load` that matter for a measurement, by the same names.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"fortio.org/fortio/fhttp"
	"fortio.org/fortio/periodic"
	"fortio.org/fortio/stats"
	"fortio.org/log"
)

const usage = `usage: fortio load [flags] URL
       fortio version
`

func main() {
	args := os.Args[1:]
	switch {
	case len(args) == 1 && args[0] == "version":
		fmt.Println(version())
	case len(args) > 0 && args[0] == "load":
		if err := load(args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "fortio:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
}

// version returns the version of the fortio packages in this command.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "fortio.org/fortio" {
				return m.Version[1:]
			}
		}
	}
	return "unknown"
}

func load(args []string) error {
	f := flag.NewFlagSet("fortio load", flag.ExitOnError)
	o := fhttp.HTTPRunnerOptions{}
	f.Float64Var(&o.QPS, "qps", 8, "requests per second over all connections; 0: as many as possible")
	f.IntVar(&o.NumThreads, "c", 4, "connections, each with its own goroutine")
	f.DurationVar(&o.Duration, "t", 5*time.Second, "how long")
	f.Int64Var(&o.Exactly, "n", 0, "number of requests, instead of a duration")
	f.Float64Var(&o.RunnerOptions.Resolution, "r", 0.001, "resolution of the lowest histogram buckets, seconds")
	f.BoolVar(&o.Jitter, "jitter", false, "vary the pace by 10 %")
	f.BoolVar(&o.Uniform, "uniform", false, "spread the connections' requests evenly over the interval")
	f.BoolVar(&o.NoCatchUp, "nocatchup", false, "leave out calls that are late, instead of making them up")
	percentiles := f.String("p", "50,75,90,99,99.9", "percentiles to work out")
	f.DurationVar(&o.HTTPReqTimeOut, "timeout", fhttp.HTTPReqTimeOutDefaultValue, "of a connection and of a read")
	f.BoolVar(&o.DisableFastClient, "stdclient", false, "use net/http's client")
	f.BoolVar(&o.H2, "h2", false, "HTTP/2, with net/http's client")
	f.StringVar(&o.MethodOverride, "X", "", "method")
	f.Func("H", "header `Name: value`", o.AddAndValidateExtraHeader)
	size := f.Int("payload-size", 0, "bytes of the request's body")
	f.BoolVar(&o.Insecure, "k", false, "do not verify certificates")
	f.StringVar(&o.CACert, "cacert", "", "certificate authority, PEM")
	f.StringVar(&o.Cert, "cert", "", "client certificate, PEM")
	f.StringVar(&o.Key, "key", "", "client key, PEM")
	f.BoolVar(&o.AllowInitialErrors, "allow-initial-errors", false, "go on when the first calls fail")
	f.BoolVar(&o.LogErrors, "log-errors", true, "log every error as it happens")
	quiet := f.Bool("quiet", false, "log warnings and errors only")
	out := f.String("json", "", "write the result there as JSON; -: standard output")
	_ = f.Parse(args) // ExitOnError
	if f.NArg() != 1 {
		return fmt.Errorf("one URL is wanted, %d given", f.NArg())
	}
	o.URL = f.Arg(0)
	o.Out = os.Stderr
	if o.QPS <= 0 {
		o.QPS = -1 // the package takes 0 for its own default
	}
	if *quiet {
		log.SetLogLevelQuiet(log.Warning)
	}
	if *size > 0 {
		o.Payload = make([]byte, *size)
		for i := range o.Payload {
			o.Payload[i] = 'x'
		}
	}
	var err error
	if o.Percentiles, err = stats.ParsePercentiles(*percentiles); err != nil {
		return fmt.Errorf("percentiles %q: %w", *percentiles, err)
	}
	res, err := fhttp.RunHTTPTest(&o)
	if err != nil {
		return err
	}
	return write(*out, res)
}

func write(path string, res periodic.HasRunnerResult) error {
	if path == "" {
		return nil
	}
	b, err := json.MarshalIndent(res, "", "  ")
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	b = append(b, '\n')
	if path == "-" {
		_, err = os.Stdout.Write(b)
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
