package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/clitest"
	"github.com/tare-mesh/tare/test/part"
)

// Tests that judge a measured cost run alone on the machine, in make e2e-all. A gate is decided alone too, in every make e2e.
var _, _ = part.Of("alone", TestApplicationVariants, TestCapacityStudyRuns, TestDeferredWork, TestForeignProxyBurns, TestForeignProxyWorksElsewhere,
	TestGatewayBurns, TestLadderOfStandardWeights, TestSizeIsFollowed, TestStandardDelays, TestStandardStarts, TestStandardWeight), part.Of("deciding", TestABRuns)

func TestMain(m *testing.M) {
	testscript.Main(part.M{M: m}, map[string]func(){
		"tare":            func() { os.Exit(Main(nil)) },
		"kubectl-tare":    func() { os.Exit(Main(nil)) },
		"switching-proxy": switchingProxy,
	})
}

// Scripts are whole sessions at the command line: testdata/script/*.txtar. Beside
// testscript's own commands there are
//
//	exits CODE COMMAND…       run a command that must exit with CODE
//	study DIR [KEY=VALUE]…    write a synthetic results directory of known truth
//	edit FILE OLD NEW         replace text in a file
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": clitest.Exits, "study": writeStudy, "edit": edit,
		},
	})
}

// writeStudy accepts the keys seed, blocks, noise, data (factor on the data plane's CPU), base (factor on the application's), median,
// machine (factor on every cost).
func writeStudy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: study DIR [KEY=VALUE]…")
	}
	s := answertest.Quickstart()
	s.Warmup, s.Measure, s.Rate, s.Drift = 1, 2, 200, 0
	s.Treatments = s.Treatments[:3]
	for _, a := range args[1:] {
		key, value, _ := strings.Cut(a, "=")
		v, err := strconv.ParseFloat(value, 64)
		ts.Check(err)
		for i := range s.Treatments {
			truth := &s.Treatments[i].Truth
			switch key {
			case "data":
				truth.DataUS *= v
			case "base":
				truth.AppUS *= v
			case "median":
				truth.MedianMS *= v
			case "machine":
				truth.AppUS, truth.DataUS, truth.LoadUS, truth.MedianMS = truth.AppUS*v, truth.DataUS*v, truth.LoadUS*v, truth.MedianMS*v
			}
		}
		switch key {
		case "seed":
			s.Seed = uint64(v)
		case "blocks":
			s.Blocks = int(v)
		case "noise":
			s.Noise = v
		}
	}
	d, err := s.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(d.Close())
}

// edit replaces OLD by NEW in a file of a results directory.
func edit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: edit FILE OLD NEW")
	}
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	if !strings.Contains(string(b), args[1]) {
		ts.Fatalf("%s does not hold %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(path, []byte(strings.ReplaceAll(string(b), args[1], args[2])), 0o644))
}
