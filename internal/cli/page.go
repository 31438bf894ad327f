package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/verify"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/report"
)

// pageFile is the report of a run as a page, in its results directory.
const pageFile = "report.html"

// page writes the report of a run beside its results, and shows its path.
func (c reporter) page(dir string, o reportOptions) error {
	o.format = pageFormat().Name
	var b bytes.Buffer
	if err := writeReport(&b, dir, o); err != nil {
		return fmt.Errorf("write the report as a page: %w", err)
	}
	if err := result.Add(dir, pageFile, b.Bytes()); err != nil {
		return fmt.Errorf("write the report as a page: %w", err)
	}
	c.showPage(dir)
	return nil
}

// pageFormat is the report as one HTML file.
func pageFormat() report.Format {
	return report.Format{Name: "html", Doc: "one page with figures, complete in one file", WriteRun: writePage}
}

func writePage(w io.Writer, a answer.Analysis) error {
	verified, err := verify.Dir(a.Dir.Path(), verify.Options{Tare: console.Version(), Expand: planOf(), Judge: judgeOf})
	if err != nil {
		return err
	}
	return page.Write(w, page.Source{Analysis: a, Verified: verified})
}

// planOf returns a function that makes the plan of a recorded experiment file. meshes are files of definitions.
func planOf(meshes ...string) func(file string) (*plan.Plan, error) {
	return func(file string) (*plan.Plan, error) {
		s, err := session.NewProgram(console.Version(), nil).Read(context.Background(), file, session.Options{Meshes: meshes, Recorded: true})
		if err != nil {
			return nil, err
		}
		return s.Plan, nil
	}
}

// judgeOf returns a function that makes the validity checks of a recorded experiment file again.
func judgeOf(file string) (verify.Judge, error) {
	x, err := experiment.ReadRecord(file)
	if err != nil {
		return nil, err
	}
	return func(r *result.Record, rows []result.Slice, p50 time.Duration) ([]string, []result.Warning) {
		return runner.Recheck(x, r, rows, p50)
	}, nil
}

// showPage makes the path of a run's page the last line that the command prints.
func (c reporter) showPage(dir string) {
	c.lastLine = "Report with figures: " + printable.Line(filepath.Join(dir, pageFile))
}
