package kafkatest_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/streams/kafkatest"
)

// startIn names a folder for a process that shall do nothing but start a broker, say where it is, and wait for its end.
const startIn = "CAIRN_KAFKATEST_START_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(startIn); dir != "" {
		c, err := kafkatest.Start(context.Background(), kafkatest.Config{Dir: dir})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(c.Seeds()[0])
		select {}
	}
	goleak.VerifyTestMain(m)
}
