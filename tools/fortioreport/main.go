// Command fortioreport is `fortio report`, over Fortio's own package: it serves
// the results in a directory to a browser. Tests read tare's export in Fortio's
// format with it. The whole of Fortio's command also holds a script interpreter
// that not every module proxy serves.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fortio.org/fortio/fhttp"
	"fortio.org/fortio/ui"
)

const usage = `usage: fortioreport serve ADDRESS DIR
       fortioreport read FILE…    read results into Fortio's own types, and print what they hold
`

func main() {
	switch args := os.Args[1:]; {
	case len(args) == 3 && args[0] == "serve":
		if !ui.Report("", args[1], args[2]) {
			os.Exit(1)
		}
		select {}
	case len(args) > 1 && args[0] == "read":
		for _, file := range args[1:] {
			if err := read(file); err != nil {
				fmt.Fprintln(os.Stderr, "fortioreport:", err)
				os.Exit(1)
			}
		}
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
}

func read(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	var r fhttp.HTTPRunnerResults
	if err := d.Decode(&r); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	h := r.DurationHistogram
	fmt.Printf("%s\t%d\t%v\t%v\t%v", filepath.Base(file), h.Count, h.Avg, r.ActualQPS, h.CalcPercentile(50))
	for code, n := range r.RetCodes {
		fmt.Printf("\t%d=%d", code, n)
	}
	fmt.Println()
	return nil
}
