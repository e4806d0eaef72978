package admit_test

import (
	"os"
	"testing"

	"github.com/seed-0906e6bc/mneme/hostapi/compiler/compilertest"
)

func TestMain(m *testing.M) { os.Exit(compilertest.Main(m)) }
