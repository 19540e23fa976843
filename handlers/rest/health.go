package rest

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// healthz says that the process answers.
func (s *server) healthz(c echo.Context) error {
	return c.String(http.StatusOK, "ok\n")
}

type checkView struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	Detail string `json:"detail,omitempty"`
}

// readyz says whether the process can do its work; with verbose also what it looked at. It needs no token
// and says nothing of anybody's data.
func (s *server) readyz(c echo.Context) error {
	answer := struct {
		Ready  bool        `json:"ready"`
		Checks []checkView `json:"checks,omitempty"`
	}{Ready: true}
	_, verbose := c.QueryParams()["verbose"]
	for _, check := range s.Readiness(c.Request().Context()) {
		v := checkView{Name: check.Name, Ready: check.Err == nil, Detail: check.Detail}
		if check.Err != nil {
			answer.Ready = false
			v.Detail = check.Err.Error()
		}
		if verbose {
			answer.Checks = append(answer.Checks, v)
		}
	}
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
		c.Response().Header().Set(echo.HeaderRetryAfter, "1")
	}
	return s.json(c, status, answer)
}
