-- Headless Neovim: attach, wait for findings, apply a fix, save, and write down what was seen.
local command, report = vim.env.DDPIFY_COMMAND, vim.env.REPORT
local client = vim.lsp.start_client({ name = "ddpify", cmd = { command, "-m", "ddpify", "server" } })
local buffer = vim.api.nvim_get_current_buf()
vim.lsp.buf_attach_client(buffer, client)

local function codes()
  return vim.tbl_map(function(one) return one.code end, vim.diagnostic.get(buffer))
end

local function wait_until(what)
  if not vim.wait(60000, what, 50) then error("nothing came of the server") end
end

wait_until(function() return #codes() > 0 end)
local before = codes()
local at
for _, one in ipairs(vim.diagnostic.get(buffer)) do
  if one.code == "DDP102" then at = one end
end
local place = { line = at.lnum, character = at.col }
local answers = vim.lsp.buf_request_sync(buffer, "textDocument/codeAction", {
  textDocument = vim.lsp.util.make_text_document_params(),
  range = { start = place, ["end"] = place },
  context = { diagnostics = {} },
}, 60000)
for _, action in ipairs(answers[client].result) do
  if action.isPreferred then
    vim.lsp.util.apply_workspace_edit(action.edit, vim.lsp.get_client_by_id(client).offset_encoding)
  end
end
wait_until(function() return not vim.tbl_contains(codes(), "DDP102") end)
vim.cmd("write")
vim.fn.writefile({ table.concat(before, " "), table.concat(codes(), " ") }, report)
vim.lsp.stop_client(client)
